"""`lora-evo retention` and `recovery`: what children keep, before training and by training."""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import torch

from lora_evo.breeding.parents import moments_of, parents_on_disk
from lora_evo.commands.frame import FOLDER, counter, json_option, print_json, status_line
from lora_evo.commands.retention_text import (
    Against,
    after,
    moments_line,
    parent_lines,
    training_line,
)
from lora_evo.errors import LoraEvoError
from lora_evo.files.directory import load_adapter
from lora_evo.files.folders import shortest_unique_names
from lora_evo.probing.base_model import open_base
from lora_evo.probing.probe import Behaviour, probe
from lora_evo.probing.prompt_rows import read_probes
from lora_evo.probing.retention import retention_of_directories
from lora_evo.probing.verdict import HINT
from lora_evo.recovery.journal import read_journal
from lora_evo.recovery.plan import read_treatment
from lora_evo.recovery.summary import Summary, summarise
from lora_evo.recovery.supervised_learner import SupervisedLearner, TrainingRecipe
from lora_evo.recovery.supervised_trials import TRIALS, SupervisedTrials, row_of_child
from lora_evo.recovery.table import markdown, text_table, to_dict
from lora_evo.recovery.training_rows import read_training_rows

_LIMITS = {"change": None, "kl": "--probes", "recovery": "--train"}
"""What a limit may be set on, and the option that it needs."""


@click.command()
@click.argument("child", type=FOLDER)
@click.option("--parent", "parents", type=FOLDER, multiple=True, help="Repeat for several parents.")
@click.option("--model", type=FOLDER, help="Folder of the base model.")
@click.option("--probes", type=FOLDER, help='JSON Lines: {"prompt", "completion"?}.')
@click.option("--train", type=FOLDER, help='JSON Lines: {"prompt", "completion"}; wants --out.')
@click.option("--out", type=FOLDER, help="Folder for the journal of the training.")
@click.option("--operators", metavar="A,'B K=V',...", help="Train children that these make, too.")
@click.option("--steps", type=int, default=50, show_default=True, help="Of training.")
@click.option("--seeds", type=int, default=5, show_default=True, help="Orders of the rows.")
@click.option("--lr", type=float, default=1e-4, show_default=True, help="Of AdamW.")
@click.option("--batch-size", type=int, default=8, show_default=True, help="Rows at a time.")
@click.option(
    "--limit", "limits", multiple=True, metavar="NAME=NUMBER",
    help="Exit code 1 above it: change=0.3, kl=0.2 or recovery=20 (steps).",
)  # fmt: skip
@json_option
def retention(
    child: Path,
    parents: tuple[Path, ...],
    model: Path | None,
    probes: Path | None,
    train: Path | None,
    out: Path | None,
    operators: str | None,
    steps: int,
    seeds: int,
    lr: float,
    batch_size: int,
    limits: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare CHILD with its parents: before training, and with --train by training.

    Parents are those named with --parent, else the adapters beside CHILD that its lineage names.
    From weights alone in seconds; with a base model and probe prompts also KL(parent||child) per
    token, its ratio to KL(base||parent) (the limit `kl`), the loss on the completions, and the
    change of each module on the inputs that occur. Limits apply to the closest parent.

    With --train ROWS the child is trained on worked examples beside two controls, the first parent
    trained on and a fresh adapter, on the same rows in the same order; a fifth of the prompts is
    held out. Fitness is the geometric mean of the probabilities of a held-out completion's tokens.
    Printed is after how many steps the child holds its best parent's level, and its gain over the
    controls. --out keeps the journal trials.jsonl: the same command goes on after an interruption,
    one with more seeds or operators adds to it, and `lora-evo recovery` prints it.
    """
    given = {"--probes": probes, "--train": train, "--out": out, "--operators": operators}
    asked = {name for name, value in given.items() if value is not None}
    bounds = _limits(limits, asked, steps)
    _check_options(asked, model)
    folders = list(parents) or parents_on_disk(child)
    short = shortest_unique_names(folders)  # refuses a parent given twice
    names = [str(parent) for parent in parents] or short
    compared = {
        name: retention_of_directories(folder, child)
        for name, folder in zip(names, folders, strict=True)
    }
    rows = None if probes is None else read_probes(probes)
    seen: Mapping[str, Behaviour] = {}
    summary: Summary | None = None
    label = child.resolve().name
    if model is not None:
        adapters = [load_adapter(folder) for folder in folders]
        offspring = load_adapter(child)
        trials, lesson = None, None
        if train is not None:
            words = [word.strip() for word in (operators or "").split(",")]
            treatments = tuple(read_treatment(word) for word in words if word)
            known = dict(zip(short, adapters, strict=True))
            trials = SupervisedTrials((label, offspring), known, treatments, seeds, steps)
            trials.plan()
            lesson = read_training_rows(train)
        recipe = TrainingRecipe(lr, batch_size)
        base = open_base(model)
        learner = None if lesson is None else SupervisedLearner(base, lesson, recipe)
        if rows is not None:
            with counter("probing", "rows") as progress:
                seen = probe(
                    base, dict(zip(names, adapters, strict=True)), offspring, rows,
                    batch_size=batch_size, progress=progress,
                )  # fmt: skip
        if trials is not None and learner is not None and out is not None:
            summary = run_supervised(trials, learner, out)
    against = {name: Against(row, seen.get(name)) for name, row in compared.items()}
    moments = moments_of(child)
    exceeded = _exceeded(list(against.values()), bounds)
    if summary is not None:
        exceeded += _not_recovered(label, summary, bounds.get("recovery"))
    if as_json:
        print_json(
            {
                "child": str(child),
                "moments_valid_at_birth": None if moments is None else moments.valid_at_birth,
                "trained_since_birth": None if moments is None else moments.trained,
                "parents": {name: row.to_dict() for name, row in against.items()},
                "recovery": None if summary is None else to_dict(summary),
                "exceeded": exceeded,
            }
        )
    else:
        for name, row in against.items():
            for line in parent_lines(str(child), name, row):
                click.echo(line)
        click.echo(moments_line(moments))
        click.echo(HINT)
        if summary is not None and out is not None:
            click.echo(f"\n{training_line(str(child), row_of_child(summary, label), summary)}")
            click.echo(text_table(summary))
            click.echo(f"journal: {out / TRIALS}")
    for reason in exceeded:
        click.echo(f"lora-evo: {child}: {reason}", err=True)
    if exceeded:
        sys.exit(1)


@click.command()
@click.argument("trials", type=FOLDER)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown instead of text.")
@json_option
def recovery(trials: Path, as_markdown: bool, as_json: bool) -> None:
    """After how many training steps children equal their parents: the table of TRIALS.

    TRIALS is a JSON Lines file, as `selfplay retention`, `lora-evo retention --train` and
    `lora_evo.run_trials` write it; it may still be growing.
    """
    summary = summarise(read_journal(trials))
    if as_json:
        print_json(to_dict(summary))
    elif as_markdown:
        click.echo(markdown(summary), nl=False)
    else:
        click.echo(text_table(summary))


def run_supervised(trials: SupervisedTrials, learner: SupervisedLearner, out: Path) -> Summary:
    """Run the trials, with a line on the terminal that counts steps."""
    head = ""
    with status_line() as show:

        def report(done: int, total: int, what: str) -> None:
            nonlocal head
            head = f"trained {done} of {total}: {what}"
            on_step(0)

        def on_step(done: int) -> None:
            if show is not None:
                show(f"{head}, step {done} of {trials.steps}")

        learner.on_step = on_step
        try:
            return trials.run(out, learner, report)
        except torch.OutOfMemoryError as error:
            raise LoraEvoError(
                f"the device has too little memory for batches of {learner.recipe.batch_size} "
                "rows; give a smaller --batch-size, or shorter rows, and another --out"
            ) from error


def _check_options(asked: set[str], model: Path | None) -> None:
    """Refuse options that say nothing without each other; `asked` are those with a value."""
    if "--train" in asked:
        if model is None or "--out" not in asked:
            raise LoraEvoError("--train needs --model, and --out for its journal")
    elif lonely := sorted(asked - {"--probes"}):
        raise LoraEvoError(f"{lonely[0]} needs --train")
    if "--probes" in asked and model is None:
        raise LoraEvoError("--probes needs --model")
    if model is not None and not asked & {"--probes", "--train"}:
        raise LoraEvoError("--model needs --probes or --train")


def _limits(words: Sequence[str], asked: set[str], steps: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in _LIMITS:
            raise LoraEvoError(f"--limit {word}: expected one of {', '.join(_LIMITS)}, = a number")
        try:
            found[name] = float(text)
        except ValueError as error:
            raise LoraEvoError(f"--limit {word}: expected a number after =") from error
        most = steps if name == "recovery" else sys.float_info.max
        if not 0 <= found[name] <= most:
            raise LoraEvoError(f"--limit {word}: expected a number from 0 to {most:g}")
        needed = _LIMITS[name]
        if needed is not None and needed not in asked:
            raise LoraEvoError(f"--limit {word} needs {needed}")
    return found


def _exceeded(against: Sequence[Against], bounds: Mapping[str, float]) -> list[str]:
    """Which limits the closest parent breaks, in words."""
    found = []
    changes = [row.weights.whole.relative_change for row in against]
    ratios = [row.behaviour.kl_ratio for row in against if row.behaviour is not None]
    for limit, what, values in (("change", "relative change", changes), ("kl", "KL ratio", ratios)):
        if limit in bounds:
            least = min(math.inf if value is None else value for value in values)
            if least > bounds[limit]:
                shown = f"{least:.6g}" if math.isfinite(least) else "undefined (from zero)"
                found.append(f"{what} {shown} to the closest parent is above {bounds[limit]:g}")
    return found


def _not_recovered(label: str, summary: Summary, limit: float | None) -> list[str]:
    """Why a child fails the limit on its recovery, in words; nothing without a limit."""
    if limit is None:
        return []
    median, last = row_of_child(summary, label).median, summary.protocol.steps
    found = []
    if median is None or median > limit:
        found.append(f"at its best parent's level {after(median, last)}, the limit is {limit:g}")
    if not summary.has_power:
        found.append("the training proves nothing, because a fresh adapter recovers as well")
    return found
