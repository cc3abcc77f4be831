"""The journal of an experiment: a line for its terms, one per parent, one per finished cohort."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.recovery.plan import Trial
from lora_evo.recovery.protocol import RecoveryProtocol, checked_scores

FORMAT = "lora-evo trials 1"


@dataclass(frozen=True)
class Outcome:
    """What was measured of one trial: scores[check][item] at the first checks of the protocol."""

    trial: Trial
    relative_change: float | None
    """Of the child against its first parent, before training; None from a zero update."""
    scores: tuple[tuple[float, ...], ...]

    @property
    def fitness(self) -> tuple[float, ...]:
        """The mean score at each check."""
        return tuple(math.fsum(row) / len(row) for row in self.scores)


@dataclass
class Journal:
    """An experiment on disk. Lines are only ever appended; each is on disk when `add` returns."""

    path: Path
    protocol: RecoveryProtocol
    parents: dict[str, str]
    """Content hashes of the parents by name."""
    setting: dict[str, Any]
    levels: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Scores of the parents as they are."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By the key of the trial, in the order of the file."""

    @classmethod
    def open(
        cls,
        path: Path,
        protocol: RecoveryProtocol,
        parents: Mapping[str, str],
        setting: Mapping[str, Any],
    ) -> "Journal":
        """Start a journal, or go on with one of the same terms, whose torn last line is cut off."""
        if not path.exists() or not path.stat().st_size:
            journal = cls(path, protocol, dict(parents), dict(setting))
            path.parent.mkdir(parents=True, exist_ok=True)
            journal._append(journal._header())
            return journal
        _cut_torn_line(path)
        if not path.stat().st_size:
            return cls.open(path, protocol, parents, setting)
        found = read_journal(path)
        wanted = cls(path, protocol, dict(parents), dict(setting))._header()
        for name, value in wanted.items():
            there = found._header()[name]
            if there != json.loads(json.dumps(value)):
                raise LoraEvoError(
                    f"{path} holds trials with {name} {_brief(there)}, not {_brief(value)}; "
                    "go on with the terms it was begun with, or choose another file"
                )
        return found

    def add_level(self, name: str, scores: Sequence[float]) -> None:
        """Write the scores of a parent as it is."""
        self._append({"parent": name, "scores": list(scores)})
        self.levels[name] = tuple(scores)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Write a finished cohort: all of it or, after a crash, nothing."""
        rows = [
            {"trial": o.trial.row(), "relative_change": o.relative_change, "scores": o.scores}
            for o in outcomes
        ]
        self._append({"cohort": rows})
        self.outcomes.update({o.trial.key: o for o in outcomes})

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "protocol": asdict(self.protocol) | {"checks": list(self.protocol.checks)},
            "parents": self.parents,
            "setting": self.setting,
        }

    def _append(self, row: Mapping[str, Any]) -> None:
        text = json.dumps(row, separators=(",", ":"), allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_journal(path: Path) -> Journal:
    """Read the whole lines of a journal; the file is left as it is."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError as error:
        raise LoraEvoError(f"{path} does not exist; expected a journal of trials") from error
    journal: Journal | None = None
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            if journal is None:
                journal = _begun(path, row)
            elif "parent" in row:
                journal.levels[row["parent"]] = tuple(checked_scores(row["scores"]))
            else:
                for outcome in map(_outcome, row["cohort"]):
                    journal.outcomes[outcome.trial.key] = outcome
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LoraEvoError(
                f"{path}, line {number} is not of a journal of trials: {error or repr(error)}"
            ) from error
    if journal is None:
        raise LoraEvoError(f"{path} holds no whole line; expected a journal of trials")
    return journal


def _begun(path: Path, row: Mapping[str, Any]) -> Journal:
    if row["format"] != FORMAT:
        raise LoraEvoError(f"the format is {row['format']!r}, expected {FORMAT!r}")
    terms = row["protocol"] | {"checks": tuple(row["protocol"]["checks"])}
    return Journal(path, RecoveryProtocol(**terms), dict(row["parents"]), dict(row["setting"]))


def _outcome(row: Mapping[str, Any]) -> Outcome:
    scores = tuple(tuple(checked_scores(found).tolist()) for found in row["scores"])
    if not scores:
        raise LoraEvoError("a trial has no scores")
    return Outcome(Trial.from_row(row["trial"]), row["relative_change"], scores)


def _cut_torn_line(path: Path) -> None:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
