"""Beginnings of programs that get round what Python refuses."""

DEEP = """
get = object.__getattribute__
for c in type.__getattribute__(object, '__subcl' + 'asses__')():
    if c.__name__ == '_wrap_close':
        space = get(type.__getattribute__(c, '__init__'), '__glo' + 'bals__')
p = space['sys'].modules['posix']
for c in type.__getattribute__(object, '__subcl' + 'asses__')():
    if c.__name__ == 'BuiltinImporter':
        fresh = c
"""
"""Everything that Python could refuse is got round: only the kernel is left."""

REAL_CLOCK = (
    "import random\n" + DEEP + "def f():\n    space['sys'].modules.pop('time')\n"
    "    m = fresh.load_module('time')\n    return {read}\n"
)
