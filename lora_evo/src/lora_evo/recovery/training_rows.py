"""Rows to train on and rows to measure on: from two files, or from one that is split."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from lora_evo.errors import LoraEvoError
from lora_evo.files.directory import PathLike
from lora_evo.linalg.noise import stream
from lora_evo.probing.prompt_rows import ProbeRow, read_probes

SHARE = 0.2
"""Of the different prompts of one file that are held out."""
FEWEST_HELD_OUT = 8
"""Rows; from fewer no interval of a level can be told."""


@dataclass(frozen=True)
class TrainingRows:
    """Rows with completions, no row on both sides."""

    train: tuple[ProbeRow, ...]
    held_out: tuple[ProbeRow, ...]

    def __post_init__(self) -> None:
        if not self.train:
            raise LoraEvoError("there are no rows to train on; give more rows")
        if len(self.held_out) < FEWEST_HELD_OUT:
            raise LoraEvoError(
                f"{len(self.held_out)} rows are held out, expected at least {FEWEST_HELD_OUT}; "
                "give more rows, or more in a held-out file of their own"
            )
        check_completions(self.train, "training rows")
        check_completions(self.held_out, "held-out rows")
        trained = {_text(row) for row in self.train}
        both = [row.line for row in self.held_out if _text(row) in trained]
        if both:
            raise LoraEvoError(
                f"{len(both)} held-out rows are among the training rows, for example the one on "
                f"line {both[0]}; what is measured must not be trained on: remove them from a file"
            )

    @property
    def fingerprint(self) -> str:
        """A hash of all prompts and completions in their order."""
        sides = [[_text(row) for row in rows] for rows in (self.train, self.held_out)]
        return hashlib.blake2b(json.dumps(sides).encode(), digest_size=16).hexdigest()


def read_training_rows(train: PathLike, held_out: PathLike | None = None) -> TrainingRows:
    """Rows `{"prompt": text, "completion": text}` of one or two JSON Lines files.

    Other fields and empty lines are passed over. Without `held_out` a fifth of the prompts of
    `train` is held out, all rows of one prompt on the same side; which ones follows from their
    number alone. Raises `LoraEvoError`, naming the line, for what cannot be used.
    """
    rows = read_probes(train)
    check_completions(rows, str(train))
    if held_out is not None:
        return TrainingRows(tuple(rows), tuple(read_probes(held_out)))
    return split_rows(rows)


def split_rows(rows: Sequence[ProbeRow]) -> TrainingRows:
    """A fifth of the prompts held out, drawn without regard to what they say."""
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    order = stream(0, "held out", str(len(prompts))).permutation(len(prompts))
    kept = {prompts[place] for place in order[: round(SHARE * len(prompts))]}
    return TrainingRows(
        tuple(row for row in rows if row.prompt not in kept),
        tuple(row for row in rows if row.prompt in kept),
    )


def check_completions(rows: Sequence[ProbeRow], what: str) -> None:
    """Refuse rows that are prompts only."""
    bare = [row.line for row in rows if row.completion is None]
    if bare:
        raise LoraEvoError(
            f"{what}: line {bare[0]} has no completion ({len(bare)} such rows); expected "
            '{"prompt": text, "completion": text} on every line'
        )


def _text(row: ProbeRow) -> tuple[str, str | None]:
    return row.prompt, row.completion
