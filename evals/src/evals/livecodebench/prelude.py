"""What is in a program's module before it: the names that LiveCodeBench's harness gives it.

By default these never hide a built-in function, and the standard input is a real pipe. The
compatible way repeats the official harness, which rejects some correct programs: statements run
inside a function (so that a class named Solution is not found), `sys.stdin` is a stand-in that
cannot be iterated and whose buffer gives its first line for ever, and `sys.stdout` has no buffer.
"""

import ast

from code_verifier import ProgramError, parse_program

RECURSION = 50_000
_NAMED = str.split(
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json"
)
_STARRED = [*_NAMED, "typing"]

PRELUDE = f"""
def _names():
    import builtins, importlib
    for name in {_STARRED!r}:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [key for key in vars(module) if key[0] != "_"]
        for key in public:
            if not hasattr(builtins, key):
                globals()[key] = getattr(module, key)
    for name in {_NAMED!r}:
        globals()[name] = importlib.import_module(name)
_names()
del _names
"""

_COMPAT_IMPORTS = "\n".join(
    [
        *(f"from {name} import *" for name in (*_STARRED[:-1], "builtins", "typing")),
        *(f"import {name}" for name in _NAMED),
    ]
)

COMPAT_SCRIPT = """
__name__ = "tmp_sol"
class _Buffer:
    def __init__(self, data):
        self._data = data
    def read(self, *args):
        return self._data
    def readline(self, *args):
        return self._data.partition(b"\\n")[0] + b"\\n"
class _Input:
    def __init__(self, text):
        import io
        self._text, self._lines = text, io.StringIO(text)
        self.buffer = _Buffer(text.encode())
    def read(self, *args):
        return self._text
    def readline(self, *args):
        return self._lines.readline(*args)
    def readlines(self, *args):
        return self._text.split("\\n")
    def __getattr__(self, name):
        return getattr(self._lines, name)
class _Output:
    def __init__(self, stream):
        self._stream = stream
    def write(self, text):
        return self._stream.write(text)
    def __getattr__(self, name):
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)
def _stand_in():
    import sys
    sys.stdin, sys.stdout = _Input(sys.stdin.read()), _Output(sys.stdout)
_stand_in()
"""


def compatible_script(program: str) -> str:
    """Return the program as the official harness runs it: imports, the rest in a function."""
    if "class Solution" in program:
        return "Solution"  # the harness looks for it in the module
    return inside_function(program, _COMPAT_IMPORTS)


def compatible_module(program: str) -> str:
    """Return a program with functional tests as the official harness runs it."""
    return f"{_COMPAT_IMPORTS}\n\n{program}"


def inside_function(program: str, before: str = "") -> str:
    """Return the program as the body of a function that is called, behind its imports."""
    try:
        tree = parse_program(program).tree
    except ProgramError:
        return program
    body = list(tree.body) if isinstance(tree, ast.Module) else []
    last = body[-1] if body else None
    if isinstance(last, ast.If) and ast.unparse(last.test).strip() == "__name__ == '__main__'":
        body[-1:] = last.body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    if not others:
        return program
    inner = "\n".join("    " + line for node in others for line in _lines(node))
    head = "\n".join(ast.unparse(node) for node in imports)
    return f"{before}\n{head}\ndef wrapped_function():\n{inner}\nwrapped_function()\n"


def _lines(node: ast.stmt) -> list[str]:
    return ast.unparse(node).split("\n")
