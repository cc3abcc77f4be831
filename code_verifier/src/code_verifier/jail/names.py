"""Names that only an escape needs. See `policy`."""

_NAMES = "eval exec compile open input breakpoint help __import__ __builtins__ __loader__ __spec__"
_ATTRIBUTES = """
    __subclasses__ __globals__ __builtins__ __code__ __closure__ __import__ __loader__ __spec__
    __reduce__ __reduce_ex__ f_back f_globals f_locals f_builtins f_code tb_frame tb_next
    gi_frame gi_code cr_frame cr_code ag_frame ag_code
"""
BANNED_NAMES = frozenset(_NAMES.split())
BANNED_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
