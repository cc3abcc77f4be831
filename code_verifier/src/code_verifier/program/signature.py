"""Which call of `f` an argument list makes: two texts may name the same call."""

import ast
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.literals.canonical import canonical
from code_verifier.literals.literal import canonical_arguments, parse_literal
from code_verifier.program.source import ParsedProgram


class Signature:
    """The parameters of the program's last plain `def f`, read without executing it. Where there is
    no such function, or nothing that parses, every argument list stands for itself."""

    def __init__(self, program: ParsedProgram | None) -> None:
        self._positional: list[str] = []
        self._by_name: set[str] = set()
        self._defaults: dict[str, str] = {}
        for node in program.tree.body if program is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == "f" and not node.decorator_list:
                self._read(node.args)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], max_chars: int) -> str:
        """One text for all argument lists that make the same call. Raises LiteralError. Keywords
        are put in their places, and defaults that are literals are filled in."""
        named = dict(zip(self._positional, args, strict=False))
        if len(named) < len(args) or any(n in named or n not in self._by_name for n in kwargs):
            return canonical_arguments(args, kwargs, max_chars)
        texts = {name: canonical(value, max_chars) for name, value in (named | kwargs).items()}
        filled = sorted((self._defaults | texts).items())
        return ", ".join(f"{name}={text}" for name, text in filled)

    def _read(self, arguments: ast.arguments) -> None:
        plain = [*arguments.posonlyargs, *arguments.args]
        self._positional = [item.arg for item in plain]
        self._by_name = {item.arg for item in (*arguments.args, *arguments.kwonlyargs)}
        self._defaults = {}
        late = plain[len(plain) - len(arguments.defaults) :]
        items = [*late, *arguments.kwonlyargs]
        for item, default in zip(items, [*arguments.defaults, *arguments.kw_defaults], strict=True):
            if default is not None:
                try:
                    self._defaults[item.arg] = canonical(parse_literal(ast.unparse(default)))
                except LiteralError:
                    continue
