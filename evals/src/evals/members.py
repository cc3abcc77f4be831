"""Adapters by the names that a command gives, and their roles in selfplay runs.

A run keeps its members in `members/`, named by role and number: t0 is a teacher, s0 a student, a0
a single agent. Teachers write tasks and students solve them, so a role's scores are averaged.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """The members of one role in one run, whose scores are averaged. role: teacher, student or
    agent. run: the run's name; None if unknown."""

    role: str
    run: str | None = None


@dataclass(frozen=True)
class Members:
    """Adapters by name: their folders, and their groups, None for an adapter of no run. base: the
    base model of the first run; None without a run."""

    folders: dict[str, Path]
    groups: dict[str, Group | None]
    base: str | None


@dataclass(frozen=True)
class _Spec:
    """The parts of `[NAME=]FOLDER[:CHOICE]`; `name` may be empty, and `choice` None."""

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
    """Find the adapters of specs, in the form of `evals run --adapter`.

    specs: `DIR` or `NAME=DIR`, the folder of a PEFT adapter; `RUN`, the directory of a selfplay
    run, for all its living members, or with a choice: `RUN:students`, `RUN:teachers`, `RUN:agent`,
    `RUN:s3`, `RUN:s0,t1`. `NAME=RUN` renames the members to NAME-s0 and so on, `NAME=RUN:s3` that
    member to NAME. The names of a second run's members begin with its folder's name. An existing
    folder with a colon in its name is that folder. An adapter with two names is in a group once.

    Raises EvalsError for a folder that is neither an adapter nor a run, a choice that the run does
    not hold, and two adapters of one name.

        >>> members = find_members(["runs/mine:students"])
        >>> members.groups["s0"]
        Group(role='student', run='mine')
    """
    base: str | None = None
    runs: dict[str, Path] = {}  # by the name in groups
    folders: dict[str, Path] = {}
    groups: dict[str, Group | None] = {}
    for spec in map(_split, specs):
        if spec.is_run:
            living, shared = living_members(spec.folder)
            chosen, base = _choose(spec, living), base or shared
        elif spec.choice is None:
            chosen = {spec.name or spec.folder.resolve().name: spec.folder}
        else:
            fault = f"{spec.folder} is not a selfplay run, which alone has members to choose"
            raise EvalsError(f"{fault}; leave out {':' + spec.choice!r}")
        for member, folder in chosen.items():
            name, group = _name_adapter(spec, member, folder, runs)
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
    """Return the living members of a selfplay run by name, and their base model. Raises EvalsError
    for a folder without members, and for members of different bases."""
    log = run / "league" / "events.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    events: list[dict[str, Any]] = []
    with suppress(ValueError):  # the last line of a run that was killed
        events.extend(map(json.loads, lines))
    replaced = {str(e.get("member")) for e in events if e.get("event") == "member_replaced"}
    folders = [f.parent for f in run.glob(_CONFIGS) if f.parent.name not in replaced]
    if not folders:
        lacks = f"{run} holds no members/*/adapter_config.json"
        raise EvalsError(f"{lacks}; expected the directory of a run that `selfplay train` made")
    folders.sort(key=lambda f: (f.name[0], int(f.name[1:]) if f.name[1:].isdigit() else 0, f.name))
    configs = [AdapterConfig.from_json((f / "adapter_config.json").read_text()) for f in folders]
    bases = sorted({str(config.base_model_name_or_path) for config in configs})
    if len(bases) > 1:
        raise EvalsError(f"the members of {run} name different base models: {', '.join(bases)}")
    return {folder.name: folder for folder in folders}, bases[0]


def _name_adapter(
    spec: _Spec, member: str, folder: Path, runs: dict[str, Path]
) -> tuple[str, Group | None]:
    """Return the name of an adapter, and its group: the run has the name that the user gave, else
    its folder's, or as much of its path as tells it from other runs."""
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
    """Split a spec into its parts, by the folders that exist. Raises EvalsError where none does."""
    before, equals, after = text.partition("=")
    for name, place in [("", text), *([(before, after)] if equals else [])]:
        folder, choice = place, None
        while folder:
            if Path(folder).is_dir():
                return _Spec(name, Path(folder), choice)
            folder = folder.rpartition(":")[0]
            choice = place[len(folder) + 1 :]
    hint = "expected the folder of a PEFT adapter, or of a selfplay run: RUN, RUN:students, RUN:s0"
    raise EvalsError(f"there is no adapter folder {text}; {hint}")


def _choose(spec: _Spec, living: Mapping[str, Path]) -> dict[str, Path]:
    """Return the members that a spec chooses: living ones by role, any by its name."""
    if spec.choice is None:
        return dict(living)
    every = {path.parent.name: path.parent for path in spec.folder.glob(_CONFIGS)}
    chosen: dict[str, Path] = {}
    for word in (part.strip() for part in spec.choice.split(",")):
        roles = word, word.removesuffix("s")
        members = {name: folder for name, folder in living.items() if role_of(name) in roles}
        if word in every:
            members = {word: every[word]}
        if not members:
            raise EvalsError(f"{spec.folder} has no {word!r}; it holds {_inventory(living)}")
        chosen |= members
    return chosen


def _inventory(members: Iterable[str]) -> str:
    """List members by role, such as `students s0, s1 and teachers t0, t1`."""
    by_role: dict[str, list[str]] = {}
    for name in members:
        by_role.setdefault(role_of(name) or "member", []).append(name)
    roles = by_role.items()
    return " and ".join(f"{role}{'s'[: len(n) - 1]} {', '.join(n)}" for role, n in roles)
