"""Whether a task repeats another one, word for word or in its structure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from code_verifier.errors import LiteralError, ProgramError
from code_verifier.literals.literal import canonical_arguments, parse_arguments
from code_verifier.program.fingerprint import fingerprint
from code_verifier.program.source import parse_program, strip_comments
from code_verifier.tasks.task import Task


@dataclass(frozen=True)
class Duplicate:
    """What an earlier item has in common with a later one."""

    exact: bool
    """The same program but for layout, comments and docstrings, and for tasks also the same kind
    and inputs as values; otherwise only the structure (`fingerprint`) is the same."""
    position: int
    """Place of the earlier item, from 0."""
    name: str
    """Its task id, or "" for a program."""


class Duplicates:
    """A growing set of programs or tasks that tells which later ones repeat an earlier one. A
    program that does not parse repeats only an equal text. Time per item: one parse."""

    def __init__(self, items: Iterable[Task | str] = ()) -> None:
        self._exact: dict[tuple[str, ...], tuple[int, str]] = {}
        self._structures: dict[str, tuple[int, str]] = {}
        self._count = 0
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        """How many items were added, duplicates too."""
        return self._count

    def find(self, item: Task | str) -> Duplicate | None:
        """The first item this one repeats, an exact one before a structural one, or None."""
        return self._find(*_keys(item))

    def add(self, item: Task | str) -> Duplicate | None:
        """`find`, and remember the item."""
        exact, structure = _keys(item)
        found = self._find(exact, structure)
        place = (self._count, "" if isinstance(item, str) else item.id)
        self._exact.setdefault(exact, place)
        if structure is not None:
            self._structures.setdefault(structure, place)
        self._count += 1
        return found

    def _find(self, exact: tuple[str, ...], structure: str | None) -> Duplicate | None:
        if exact in self._exact:
            return Duplicate(True, *self._exact[exact])
        same = self._structures.get(structure or "")
        return None if same is None else Duplicate(False, *same)


def find_duplicates(items: Iterable[Task | str]) -> Iterator[Duplicate | None]:
    """For each item in order, the earlier item it repeats, or None."""
    seen = Duplicates()
    for item in items:
        yield seen.add(item)


def _keys(item: Task | str) -> tuple[tuple[str, ...], str | None]:
    program = item if isinstance(item, str) else item.program
    structure: str | None = None
    try:
        parsed = parse_program(program)
        clean, structure = strip_comments(parsed), fingerprint(parsed)
    except ProgramError:
        clean = program
    if isinstance(item, str):
        return ("program", clean), structure
    inputs = item.inputs if item.kind == "code_f" else (item.input or "",)
    return (item.kind, clean, *sorted(map(_input_key, inputs))), structure


def _input_key(text: str) -> str:
    try:
        return canonical_arguments(*parse_arguments(text))
    except LiteralError:
        return text
