"""Whether an object whose text shows its address may get to where a text is made of it.

Such objects are instances of classes that do not say their text. They are followed, by name, from
where they are made through variables, attributes, arguments and returned values; wherever else one
stands (in a container, a text, a call of something unknown), it counts as kept.
"""

import ast
import builtins
from collections import Counter
from typing import Any

from code_verifier.jail.chance import Program
from code_verifier.jail.imports import words

_PLAIN = words("dict list tuple str int float")
"""Built-in classes whose text shows no address, as that of exceptions."""
_ASKING = words("isinstance issubclass callable hasattr getattr setattr print")
"""Built-in functions that keep nothing of their first argument."""
_MOST_ROUNDS = 32
_SCOPES = (ast.FunctionDef, ast.ClassDef, ast.Module, ast.Lambda)


def keeps_an_instance(program: Program) -> bool:
    """Whether an instance may be kept by a program without decorators and generators."""
    return _Instances(program).are_kept()


class _Instances:
    """What may hold an instance: variables, attributes, and functions that return one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parents = program.parents
        self.functions: list[Any] = [*program.nodes[ast.FunctionDef]]
        self.classes = {n.name: n for n in program.nodes[ast.ClassDef] if not _says_its_text(n)}
        self.variables: set[str] = set()
        self.attributes: set[str] = set()
        self.makers: set[str] = set()

    def are_kept(self) -> bool:
        """Follow them until nothing new holds one, or for too long."""
        if not self.classes:
            return False
        nodes = self.program.nodes
        bindings = Counter(self.program.bindings)
        if any(bindings[name] > 1 for name in self.classes):
            return True
        if any(node.keywords for node in nodes[ast.ClassDef]):
            return True  # a metaclass
        if not all(map(self.program.is_compared, self.program.types())):
            return True  # which may be called
        if not all(map(self.starts_well, self.functions)):
            return True
        known = -1
        for _ in range(_MOST_ROUNDS):
            if known == (known := sum(map(len, (self.variables, self.attributes, self.makers)))):
                return False
            if not all(map(self.goes_on, self.instances())):
                return True
            if self.makers and self.program.own - {node.name for node in self.functions}:
                return True  # one may have another name
        return True

    def starts_well(self, function: ast.FunctionDef) -> bool:
        """Note what a method is given: `self`, and what operators have on their other side."""
        owner = self.scope(function)
        if not isinstance(owner, ast.ClassDef):
            return True
        if function.name[:2] == "__" != function.name and function.name != "__init__":
            return self.takes(function)
        first = [*function.args.posonlyargs, *function.args.args][:1]
        self.variables |= {item.arg for item in first}
        return bool(first)

    def instances(self) -> list[ast.AST]:
        """Where an instance may stand, as far as is known, and classes that are not called."""
        nodes = self.program.nodes
        found: list[ast.AST] = []
        for node in (*nodes[ast.Name], *nodes[ast.Attribute]):
            name = getattr(node, "id", getattr(node, "attr", ""))
            holders = self.variables if isinstance(node, ast.Name) else self.attributes
            if type(node.ctx) is ast.Load and (name in holders or name in self.classes):
                parent = self.parents[id(node)]
                called = isinstance(parent, ast.Call) and parent.func is node
                found.append(parent if called and name not in holders else node)
        for call in nodes[ast.Call]:
            if getattr(call.func, "id", getattr(call.func, "attr", "")) in self.makers:
                found.append(call)
        return found + [n for n in self.program.lookups if n.args[1].value in self.attributes]

    def goes_on(self, node: ast.AST) -> bool:
        """Whether it is known where an instance goes from here; note where."""
        if id(node) in self.program.hints or self.program.is_consumed(node):
            return True
        match parent := self.parents[id(node)]:
            case ast.Attribute() | ast.If() | ast.While() | ast.UnaryOp(ast.Not()):
                return True
            case ast.ClassDef():
                return True  # a base
            case ast.IfExp(test=test) if test is node:
                return True
            case ast.BoolOp() | ast.IfExp():
                return self.goes_on(parent)
            case ast.Assign(targets):
                return all(self.is_put(target) for target in targets)
            case ast.AnnAssign(target=target):
                return self.is_put(target)
            case ast.Return():
                name = getattr(self.scope(parent), "name", "")
                self.makers.add(name)
                return name == "__iter__" or name[:2] != "__"
            case ast.Call(ast.Name(name), [first, *_]) if name in _ASKING:
                asked = first is node or "is" in name
                return asked and name not in self.program.bound
            case ast.Call(func) if func is not node:
                return self.is_given(parent, node)
            case ast.keyword():
                return self.is_given(self.parents[id(parent)], parent)
        return False

    def is_put(self, target: ast.AST) -> bool:
        match target:
            case ast.Name(name):
                self.variables.add(name)
                if isinstance(self.scope(target), ast.ClassDef):
                    self.attributes.add(name)
            case ast.Attribute(attr=name):
                self.attributes.add(name)
            case _:
                return False
        return True

    def is_given(self, call: Any, argument: ast.AST) -> bool:
        """Whether a call with an instance is one of the program's own, that gives it a name."""
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        front = 0  # whether the object itself is given first
        if isinstance(call.func, ast.Attribute):
            if self.program.takes_anything(call.func):
                return False
            of = getattr(call.func.value, "id", getattr(call.func.value, "attr", ""))
            front = of not in {node.name for node in self.program.nodes[ast.ClassDef]}
        elif self.program.bindings.count(name) != 1:
            return False
        if name in self.classes or name == "__init__":
            bases = {ast.unparse(x) for n in self.program.nodes[ast.ClassDef] for x in n.bases}
            if bases - self.classes.keys() - {"object"}:
                return False  # a class that keeps what it is given
            front, name = name in self.classes or front, "__init__"
        functions = [node for node in self.functions if node.name == name]
        place = -1
        if argument in call.args and not any(isinstance(x, ast.Starred) for x in call.args):
            place = call.args.index(argument) + front
        return bool(functions) and all(self.takes(node, place) for node in functions)

    def takes(self, function: ast.FunctionDef, place: int = -1) -> bool:
        """Note that a parameter of a function may be an instance: the one at this place, or any."""
        args = function.args
        names = [item.arg for item in (*args.posonlyargs, *args.args)]
        if place < 0:
            names += [item.arg for item in args.kwonlyargs]
        self.variables.update(names[place : place + 1] if place >= 0 else names)
        return args.vararg is None and args.kwarg is None

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module around a node."""
        node = self.parents[id(node)]
        while not isinstance(node, _SCOPES):
            node = self.parents[id(node)]
        return node


def _says_its_text(node: ast.ClassDef) -> bool:
    if any(isinstance(base, ast.Name) and _is_plain(base.id) for base in node.bases):
        return True
    return any(isinstance(x, ast.FunctionDef) and x.name == "__repr__" for x in node.body)


def _is_plain(name: str) -> bool:
    value = getattr(builtins, name, None)
    return name in _PLAIN or (isinstance(value, type) and issubclass(value, BaseException))
