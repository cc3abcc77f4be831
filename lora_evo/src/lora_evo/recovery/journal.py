"""The journal of an experiment: a line for its terms, one per parent, one per finished cohort."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.recovery.plan import Trial
from lora_evo.recovery.protocol import RecoveryProtocol, checked_scores

FORMAT = "lora-evo trials 1"


@dataclass(frozen=True)
class Outcome:
    """What was measured of one trial."""

    trial: Trial
    relative_change: float | None
    """Of the child against its first parent, before training; None from a zero update."""
    scores: tuple[tuple[float, ...], ...]
    """[check][item], at the first checks of the protocol."""

    @property
    def fitness(self) -> tuple[float, ...]:
        """The mean score at each check."""
        return tuple(map(fmean, self.scores))


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
        wanted = cls(path, protocol, dict(parents), dict(setting))
        whole = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
        if not whole:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            wanted._append(wanted._header())
            return wanted
        os.truncate(path, whole)
        found = read_journal(path)
        there = found._header()
        for name, value in json.loads(json.dumps(wanted._header())).items():
            if there[name] != value:
                raise LoraEvoError(
                    f"{path} holds trials with {name} {_brief(there[name])}, not {_brief(value)}; "
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
            {"trial": asdict(o.trial), "relative_change": o.relative_change, "scores": o.scores}
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
                if row["format"] != FORMAT:
                    raise LoraEvoError(f"the format is {row['format']!r}, expected {FORMAT!r}")
                terms = row["protocol"] | {"checks": tuple(row["protocol"]["checks"])}
                protocol = RecoveryProtocol(**terms)
                journal = Journal(path, protocol, dict(row["parents"]), dict(row["setting"]))
            elif "parent" in row:
                journal.levels[row["parent"]] = tuple(checked_scores(row["scores"]))
            else:
                for one in row["cohort"]:
                    trial = Trial.from_row(one["trial"])
                    scores = tuple(tuple(checked_scores(x).tolist()) for x in one["scores"])
                    if not scores:
                        raise LoraEvoError("a trial has no scores")
                    journal.outcomes[trial.key] = Outcome(trial, one["relative_change"], scores)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LoraEvoError(
                f"{path}, line {number} is not of a journal of trials: {error or repr(error)}"
            ) from error
    if journal is None:
        raise LoraEvoError(f"{path} holds no whole line; expected a journal of trials")
    return journal


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
