"""What is in a program's module before it: the names that LiveCodeBench's harness gives it.

By default these never hide a built-in function, and the standard input is a real pipe. The
compatible way repeats the official harness, which rejects some correct programs: statements run
inside a function, `sys.stdin` is a stand-in that cannot be iterated and whose buffer gives its
first line for ever, `open` gives the input whatever is opened, and `input` fails on an empty line.
"""

import ast

from code_verifier.literals.syntax import parse_module

RECURSION = 50_000
_NAMED = [
    "string",
    "re",
    "datetime",
    "collections",
    "heapq",
    "bisect",
    "copy",
    "math",
    "random",
    "statistics",
    "itertools",
    "functools",
    "operator",
    "io",
    "sys",
    "json",
]
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

COMPAT_FUNCTION = _COMPAT_IMPORTS + "\n"
COMPAT_SCRIPT = """
class _Buffer:
    def __init__(self, data):
        self._data = data
    def read(self, *args):
        return self._data
    def readline(self, *args):
        return self._data.partition(b"\\n")[0] + b"\\n"
class _Input:
    def __init__(self, text):
        self._text, self._rest = text, iter(text.split("\\n"))
        self.buffer = _Buffer(text.encode())
    def read(self, *args):
        return self._text
    def readline(self, *args):
        return next(self._rest)
    def readlines(self, *args):
        return self._text.split("\\n")
    def fileno(self):
        import io
        raise io.UnsupportedOperation("fileno")
    def flush(self):
        pass
    def close(self):
        pass
def _stand_in():
    import builtins, sys, unittest.mock
    text = sys.stdin.read()
    sys.stdin = _Input(text)
    builtins.open = unittest.mock.mock_open(read_data=text)
_stand_in()
"""


def compatible_script(program: str) -> str:
    """The program as the official harness runs it: imports first, the rest inside a function."""
    try:
        tree = parse_module(program)
    except SyntaxError:
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
    return f"{_COMPAT_IMPORTS}\n{head}\ndef wrapped_function():\n{inner}\nwrapped_function()\n"


def _lines(node: ast.stmt) -> list[str]:
    return ast.unparse(node).split("\n")
