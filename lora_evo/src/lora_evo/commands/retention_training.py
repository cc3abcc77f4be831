"""The part of `lora-evo retention` that trains: its options, its progress and its sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from lora_evo.commands.frame import FOLDER
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter
from lora_evo.probing.base_model import BaseModel
from lora_evo.recovery.plan import read_treatment
from lora_evo.recovery.summary import Gain, Summary
from lora_evo.recovery.supervised_learner import SupervisedLearner, TrainingRecipe
from lora_evo.recovery.supervised_trials import TRIALS, SupervisedTrials, row_of_child
from lora_evo.recovery.table import FEWEST, text_table
from lora_evo.recovery.training_rows import TrainingRows, read_training_rows


@dataclass(frozen=True)
class TrainingOptions:
    """What `training_options` adds to a command."""

    train: Path | None
    held_out: Path | None
    out: Path | None
    operators: str | None
    steps: int
    seeds: int
    lr: float
    max_recovery: int | None

    def check(self, model: Path | None) -> None:
        """Refuse options that say nothing without each other."""
        if self.train is None:
            for name, value in (
                ("--held-out", self.held_out),
                ("--out", self.out),
                ("--operators", self.operators),
                ("--max-recovery", self.max_recovery),
            ):
                if value is not None:
                    raise LoraEvoError(f"{name} needs --train")
        elif model is None or self.out is None:
            raise LoraEvoError("--train needs --model, and --out for its journal")
        elif self.max_recovery is not None and not 0 <= self.max_recovery <= self.steps:
            raise LoraEvoError(
                f"--max-recovery is {self.max_recovery}; expected 0 to {self.steps}, the --steps"
            )

    def lesson(
        self, name: str, child: Adapter, parents: Mapping[str, Adapter], batch_size: int
    ) -> Lesson | None:
        """All that is asked for, read and checked; None without --train."""
        if self.train is None or self.out is None:
            return None
        words = [word.strip() for word in (self.operators or "").split(",")]
        treatments = tuple(read_treatment(word) for word in words if word)
        trials = SupervisedTrials((name, child), parents, treatments, self.seeds, self.steps)
        trials.plan()
        rows = read_training_rows(self.train, self.held_out)
        return Lesson(trials, rows, TrainingRecipe(self.lr, batch_size), self.out)


@dataclass(frozen=True)
class Lesson:
    """Trials that wait for a base model."""

    trials: SupervisedTrials
    rows: TrainingRows
    recipe: TrainingRecipe
    out: Path

    def learner(self, base: BaseModel) -> SupervisedLearner:
        """The learner on a base model, which checks the rows against it."""
        return SupervisedLearner(base, self.rows, self.recipe)


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of training, in the order of the help."""
    for option in (
        click.option(
            "--max-recovery", type=int, help="Exit code 1 where training back takes more steps."
        ),
        click.option("--lr", type=float, default=1e-4, show_default=True, help="Of AdamW."),
        click.option("--seeds", type=int, default=5, show_default=True, help="Orders of the rows."),
        click.option("--steps", type=int, default=50, show_default=True, help="Of training."),
        click.option(
            "--operators",
            metavar="A,'B K=V',...",
            help="Train children that these make of the same parents, too.",
        ),
        click.option("--out", type=FOLDER, help="Folder for the journal of the training."),
        click.option(
            "--held-out", type=FOLDER, help="Rows to measure on; else a fifth of the prompts."
        ),
        click.option(
            "--train",
            type=FOLDER,
            help='JSON Lines: {"prompt", "completion"}; needs --model and --out.',
        ),
    ):
        command = option(command)
    return command


def train(lesson: Lesson, learner: SupervisedLearner) -> Summary:
    """Run the trials, with a line on the terminal that counts steps."""
    with _step_counter(lesson.trials.steps) as (on_step, report):
        learner.on_step = on_step
        try:
            return lesson.trials.run(lesson.out, learner, report)
        except torch.OutOfMemoryError as error:
            raise LoraEvoError(
                f"the device has too little memory for batches of {lesson.recipe.batch_size} rows; "
                "give a smaller --batch-size, shorter rows or --dtype bfloat16, and another --out"
            ) from error


def print_recovery(child: str, name: str, summary: Summary, folder: Path) -> None:
    """One sentence on the child, and the table of all that was trained."""
    row, last = row_of_child(summary, name), summary.protocol.steps
    few = row.trials < FEWEST
    low, high = (_step(step, last) for step in row.median_interval)
    around = "" if few else f"; {100 * summary.protocol.confidence:g} %: {low} to {high}"
    click.echo(
        f"{child} in training: at its best parent's level {_after(row.median, last)} (median of "
        f"{row.trials}{around}); fitness at step {last} minus the parent trained on "
        f"{_gain(row.over_continued, few)}, minus a fresh adapter {_gain(row.over_reset, few)}"
    )
    click.echo(text_table(summary))
    click.echo(f"journal: {folder / TRIALS}")


def exceeded_recovery(name: str, summary: Summary, limit: int | None) -> list[str]:
    """Why a child fails the limit on its recovery, in words; nothing without a limit."""
    if limit is None:
        return []
    median, last = row_of_child(summary, name).median, summary.protocol.steps
    found = []
    if median is None or median > limit:
        found.append(f"at its best parent's level {_after(median, last)}, the limit is {limit}")
    if not summary.has_power:
        found.append("the training proves nothing, because a fresh adapter recovers as well")
    return found


@contextmanager
def _step_counter(
    steps: int,
) -> Iterator[tuple[Callable[[int], None] | None, Callable[[int, int, str], None] | None]]:
    """What to call with each step and each cohort; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None, None
        return
    head = ""

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def report(done: int, total: int, what: str) -> None:
        nonlocal head
        head = f"trained {done} of {total}: {what}"
        show(head)

    def on_step(done: int) -> None:
        show(f"{head}, step {done} of {steps}")

    try:
        yield on_step, report
    finally:
        show("")


def _after(step: float | None, last: int) -> str:
    return f"not within {last} steps" if step is None else f"after {step:g} steps"


def _step(step: float | None, last: int) -> str:
    return f"> {last}" if step is None else f"{step:g}"


def _gain(gain: Gain, few: bool) -> str:
    return f"{gain.mean:+.4f}" + ("" if few else f" ({gain.low:+.4f} to {gain.high:+.4f})")
