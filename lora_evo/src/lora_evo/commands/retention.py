"""`lora-evo retention`: what a child keeps of its parents, before training and by training."""

from typing import Any

import click

from lora_evo.commands.terminal import FOLDER, json_option

_LIMITS = {"change": None, "kl": "probes", "recovery": "train"}
"""What a limit may be set on, and the option that it needs."""


class _Limit(click.ParamType):  # type: ignore[type-arg]
    """`NAME=NUMBER`."""

    name = "limit"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        name, _, text = value.partition("=")
        try:
            number = float(text)
        except ValueError:
            self.fail(f"{value}: expected NAME=NUMBER", param, ctx)
        if name not in _LIMITS or not number >= 0:
            self.fail(f"{value}: expected a number of {', '.join(_LIMITS)}", param, ctx)
        return name, number


@click.command()
@click.argument("child", type=FOLDER)
@click.option("--parent", "parents", type=FOLDER, multiple=True, help="A parent; may be repeated.")
@click.option("--model", help="The base model: a folder or a hub name.")
@click.option("--probes", type=FOLDER, help='Prompts to compare on: {"prompt", "completion"?}.')
@click.option("--train", type=FOLDER, help='Rows to train on: {"prompt", "completion"}.')
@click.option("--steps", type=int, default=50, show_default=True, help="Training steps.")
@click.option("--seeds", type=int, default=5, show_default=True, help="Orders of the rows.")
@click.option("--learning-rate", type=float, default=1e-4, show_default=True, help="Of AdamW.")
@click.option("--batch-size", type=int, default=8, show_default=True, help="Rows at a time.")
@click.option(
    "--limit", "limits", multiple=True, type=_Limit(), metavar="NAME=NUMBER",
    help="Exit code 1 above it: change=0.3, kl=0.2 or recovery=20 (steps).",
)  # fmt: skip
@json_option
def retention(model: str | None, limits: tuple[tuple[str, float], ...], **options: Any) -> None:
    """Compare CHILD with its parents: before training, and with --train by training.

    Parents are those named with --parent, else the adapters beside CHILD that its lineage names.
    From weights alone in seconds; with a base model and --probes also KL(parent||child) per token,
    its ratio to KL(base||parent) (the limit `kl`), the loss on the completions, and the change of
    each module on the inputs that occur. Limits apply to the closest parent.

    With --train the child is trained on worked examples, and so are two controls, the first parent
    and a fresh adapter, on the same rows in the same order; a fifth of the prompts is held out.
    Fitness is the geometric mean of the probabilities of a held-out completion's tokens. Printed is
    after how many steps the child holds its best parent's level, and its gain over the controls.
    """
    if model is None and (options["probes"] or options["train"]):
        raise click.UsageError("--probes and --train need --model")
    if model is not None and not (options["probes"] or options["train"]):
        raise click.UsageError("--model needs --probes or --train")
    for name, _ in limits:
        needed = _LIMITS[name]
        if needed and not options[needed]:
            raise click.UsageError(f"--limit {name} needs --{needed}")
    from lora_evo.commands.retention_run import run_retention

    run_retention(model=model, limits=dict(limits), **options)
