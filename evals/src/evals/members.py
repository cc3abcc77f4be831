"""The adapters that a command names, and the roles that they have in selfplay runs.

A run keeps its members in `members/`, named by role and number: t0 is a teacher, s0 a student, a0
the agent of a run that has one agent. Teachers write tasks and students solve them, so scores are
averaged within a role.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.errors import EvalsError
from lora_evo import AdapterConfig

BASE = "base"
"""The base model without an adapter, in tables and output folders."""
_ROLES = {"t": "teacher", "s": "student", "a": "agent"}
_MEMBER = re.compile(r"[tsa]\d+", re.ASCII)
_CONFIGS = "members/[!.]*/adapter_config.json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.@-]+")


@dataclass(frozen=True)
class Group:
    """Members whose scores are averaged: those of one role in one run.

    role: teacher, student or agent. run: the run's name; None where it is not known.
    """

    role: str
    run: str | None = None


@dataclass(frozen=True)
class Members:
    """Adapters by name: their folders, and their groups, None for an adapter of no run.

    base: the base model that the first run names; None where no run is named.
    """

    folders: dict[str, Path]
    groups: dict[str, Group | None]
    base: str | None


@dataclass(frozen=True)
class _Spec:
    """`[NAME=]FOLDER[:CHOICE]`, taken apart; `name` is empty and `choice` None where not given."""

    name: str
    folder: Path
    choice: str | None

    @property
    def is_run(self) -> bool:
        return (self.folder / "members").is_dir()


def role_of(name: str) -> str | None:
    """Return the role of a run's member by its name; None for a name that runs do not give."""
    return _ROLES[name[0]] if _MEMBER.fullmatch(name) else None


def find_members(specs: Sequence[str]) -> Members:
    """Find the adapters that specs name, in the form of `evals run --adapter`.

    specs: `DIR` or `NAME=DIR`, the folder of a PEFT adapter; `RUN`, the directory of a selfplay
    run, for its living members, or with a choice of them: `RUN:students`, `RUN:teachers`,
    `RUN:agent`, `RUN:s3`, `RUN:s0,t1`. `NAME=RUN` calls the members NAME-s0 and so on, and
    `NAME=RUN:s3` calls that member NAME. Members of a second run begin with its folder's name. A
    folder that exists with a colon in its name is that folder. An adapter that is named twice is
    in a group once.

    Raises EvalsError for a folder that is neither an adapter nor a run, a choice
    that the run does not hold, and two adapters of one name.

        >>> members = find_members(["runs/mine:students"])
        >>> members.groups["s0"]
        Group(role='student', run='mine')
    """
    base: str | None = None
    runs: dict[str, Path] = {}  # by the name that groups have
    folders: dict[str, Path] = {}
    groups: dict[str, Group | None] = {}
    for spec in map(_split, specs):
        if spec.is_run:
            living, shared = living_members(spec.folder)
            chosen, base = _choose(spec, living), base or shared
        elif spec.choice is None:
            chosen = {spec.name or spec.folder.resolve().name: spec.folder}
        else:
            raise EvalsError(
                f"{spec.folder} is not a selfplay run, which alone has members to choose; "
                f"leave out {':' + spec.choice!r}"
            )
        for member, folder in chosen.items():
            name, group = _named(spec, member, folder, runs)
            if name in folders and folders[name].samefile(folder):
                continue
            groups[name] = None if any(map(folder.samefile, folders.values())) else group
            if name in folders:
                raise EvalsError(f"two adapters are called {name!r}; name one with NAME={folder}")
            if not _NAME.fullmatch(name) or name == BASE:
                raise EvalsError(
                    f"{name!r} cannot be an adapter's name (letters, digits, . _ @ -, and not "
                    f"{BASE!r}); name it with --adapter NAME={folder}"
                )
            folders[name] = folder
    return Members(folders, groups, base)


def living_members(run: Path) -> tuple[dict[str, Path], str]:
    """Return the living members of a selfplay run by name, and the base model that they name.

    Raises EvalsError for a folder without members, and for members of different bases.
    """
    gone = _replaced(run)
    folders = [f.parent for f in run.glob(_CONFIGS) if f.parent.name not in gone]
    if not folders:
        raise EvalsError(
            f"{run} holds no members/*/adapter_config.json; expected the directory of a run that "
            "`selfplay train` made"
        )
    folders.sort(key=lambda f: (f.name[0], int(f.name[1:]) if f.name[1:].isdigit() else 0, f.name))
    configs = [AdapterConfig.from_json((f / "adapter_config.json").read_text()) for f in folders]
    base, *others = sorted({str(config.base_model_name_or_path) for config in configs})
    if others:
        raise EvalsError(f"the members of {run} name different base models: {base}, {others[0]}")
    return {folder.name: folder for folder in folders}, base


def _replaced(run: Path) -> set[str]:
    """Return the members that a child has replaced, by the log of the run's league."""
    record = run / "league" / "events.jsonl"
    names = set()
    for line in record.read_text(encoding="utf-8").splitlines() if record.is_file() else ():
        try:
            event = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            break
        if event.get("event") == "member_replaced":
            names.add(str(event.get("member")))
    return names


def _named(
    spec: _Spec, member: str, folder: Path, runs: dict[str, Path]
) -> tuple[str, Group | None]:
    """Return what an adapter is called, and its group: of a run as the user calls it, else of its
    folder's name, or as much of its path as no other run has."""
    renamed = spec.name if spec.is_run and spec.choice != member else ""
    name, group = (spec.name if spec.choice == member else "") or member, None
    place = folder.absolute() if spec.is_run else folder.resolve()
    role = role_of(place.name) if place.parent.name == "members" else None
    if role is not None:
        run = place.parent.parent.resolve()
        labels = filter(None, (renamed, run.name, "/".join(run.parts[-2:]), str(run)))
        label = next(label for label in labels if runs.get(label, run) == run)
        runs[label], group = run, Group(role, label)
        if spec.is_run and not spec.name and run != next(iter(runs.values())):
            name = f"{_NOT_IN_NAMES.sub('-', label).strip('.@-') or 'run'}-{member}"
    return f"{renamed}-{member}" if renamed else name, group


def _split(text: str) -> _Spec:
    """Take a spec apart by the folders that exist. Raises EvalsError where none does."""
    name, equals, rest = text.partition("=")
    for called, whole in [("", text), *([(name, rest)] if equals else [])]:
        folder, choice = whole, None
        while folder:
            if Path(folder).is_dir():
                return _Spec(called, Path(folder), choice)
            folder = folder.rpartition(":")[0]
            choice = whole[len(folder) + 1 :]
    raise EvalsError(
        f"there is no adapter folder {text}; expected the folder of a PEFT adapter, or of a "
        "selfplay run: RUN, RUN:students, RUN:s0"
    )


def _choose(spec: _Spec, living: Mapping[str, Path]) -> dict[str, Path]:
    """Return the members of a run that its spec chooses: living ones by role, any by its name."""
    if spec.choice is None:
        return dict(living)
    every = {path.parent.name: path.parent for path in spec.folder.glob(_CONFIGS)}
    chosen: dict[str, Path] = {}
    for word in (part.strip() for part in spec.choice.split(",")):
        roles = word, word.removesuffix("s")
        some = {name: folder for name, folder in living.items() if role_of(name) in roles}
        if word in every:
            some = {word: every[word]}
        if not some:
            raise EvalsError(f"{spec.folder} has no {word!r}; it holds {_inventory(living)}")
        chosen |= some
    return chosen


def _inventory(members: Iterable[str]) -> str:
    """Return what a run holds, such as `students s0, s1 and teachers t0, t1`."""
    by_role: dict[str, list[str]] = {}
    for name in members:
        by_role.setdefault(role_of(name) or "member", []).append(name)
    roles = by_role.items()
    return " and ".join(f"{role}{'s'[: len(n) - 1]} {', '.join(n)}" for role, n in roles)
