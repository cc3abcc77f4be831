"""Commands that make children: `lora-evo operators`, `mutate`, `cross`, `merge`, `verify`."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import click

from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import OPERATORS, VERBS, Operator, find_operator, names_of
from lora_evo.peft.directory import adapter_files
from lora_evo.terminal import FOLDER, json_option, number, print_json, say_unfit


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@json_option
def operators(name: str | None, as_json: bool) -> None:
    """List all operators, or describe one of them.

    Without NAME: all mutations, crossovers and merges. With NAME: the operator's formula, its
    source, the properties that it preserves, and its parameters.
    """
    if name is not None:
        operator = find_operator(name)
        if as_json:
            print_json({**_row(operator), "description": operator.description})
        else:
            verb, method = VERBS[operator.kind], name.replace("merge_", "--method ")
            strength = operator.default_strength
            click.echo(
                f"{name}: {operator.summary}\n\n{operator.description}\n\n"
                f"kind        {operator.kind} (lora-evo {verb} {method} ...)\n"
                f"preserves   {operator.preserves}\n"
                f"strength    {'none' if strength is None else f'--strength {strength:g}'}\n"
                f"parameters  {_parameters(operator) or 'none'} (--set NAME=VALUE)"
            )
    elif as_json:
        print_json([_row(operator) for operator in OPERATORS.values()])
    else:
        for operator in OPERATORS.values():
            strength = operator.default_strength
            options = "" if strength is None else f"  --strength {strength:g}"
            settings = _parameters(operator) and f"  {_parameters(operator)}"
            title = f"{operator.name} ({operator.kind}){options}{settings}"
            click.echo(f"{title}\n    {operator.summary}")
        click.echo("More about an operator: lora-evo operators NAME")


def _row(operator: Operator) -> dict[str, Any]:
    fields = ("name", "kind", "summary", "preserves")
    return {
        **{field: getattr(operator, field) for field in fields},
        "strength": operator.default_strength,
        "parameters": dict(operator.defaults),
    }


def _parameters_from(context: object, option: object, pairs: Sequence[str]) -> dict[str, Any]:
    """Return parameters from `k=v` texts; a value is JSON if it parses, else text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or name in values:
            raise LoraEvoError(f"--set {pair}: expected NAME=VALUE, each name once")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _numbers(context: object, option: object, weights: str | None) -> list[float] | None:
    try:
        return None if weights is None else [float(word) for word in weights.split(",")]
    except ValueError as error:
        raise LoraEvoError(f"--weights {weights}: expected numbers joined by commas") from error


def _child_options(
    weights: str = "", **seed: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator with the options of all commands that make children.

    weights: help of `--weights`; '' leaves it out. seed: settings of `--seed`.
    """
    options = [
        click.option("--out", type=FOLDER, required=True, help="New directory for the child."),
        click.option(
            "--seed", type=int,
            help="Random seed; equal seeds give equal children.", **seed,
        ),
        click.option(
            "--set", "parameters", multiple=True, metavar="NAME=VALUE", callback=_parameters_from,
            help="Set a parameter of the operator, such as level=layer; may be repeated. "
            "`lora-evo operators` lists the parameters.",
        ),
        click.option(
            "--overwrite", is_flag=True, help="Replace the adapter in --out if there is one."
        ),
        json_option,
    ]  # fmt: skip
    if weights:
        form: dict[str, Any] = {"metavar": "W,W,...", "callback": _numbers}
        options.insert(0, click.option("--weights", help=weights, **form))

    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def _make(
    kind: str, name: str, parents: Sequence[Path], out: Path, as_json: bool, **options: Any
) -> None:
    """Write a child and print its record; warn of settings of its parents that have no effect."""
    from lora_evo.children import write_child

    record = write_child(name, parents, out, kind=kind, **options)
    for parent in parents:
        if lacking := len(record.modules) - len(adapter_files(parent).paths):
            click.echo(f"{parent} lacks {lacking} modules, which count as 0", err=True)
    if as_json:
        print_json(json.loads(record.to_json()))
    else:
        change = number(record.relative_change, "from zero", 6)
        valid = record.moments_valid
        text = "keep its parents' AdamW state" if valid else "begin AdamW's state anew"
        click.echo(
            f"{out}: {record.operator} seed {record.seed}, generation {record.generation}, "
            f"{len(record.modules)} modules, relative change {change}\n"
            f"  cut off to fit the rank: {100 * record.truncation_loss:.3g} % of the update's "
            f"norm; to train on: {text}"
        )
        same = [path for path, trace in record.modules.items() if trace.relative_change == 0]
        if record.strength and same:
            click.echo(f"  as in the parent: {len(same)} modules, {same[0]} first")
    say_unfit(parents)


@click.command()
@click.argument("operator")
@click.argument("parent", type=FOLDER)
@click.option(
    "--strength", type=float,
    help="Relative change of each module's update: 0.15 is 15 % of its norm. Default: the "
    "operator's, 0.15 for most.",
)  # fmt: skip
@_child_options(required=True)
def mutate(operator: str, parent: Path, **options: Any) -> None:
    """Make a mutated child of one adapter.

    Writes a copy of the adapter directory PARENT, mutated by OPERATOR, to --out, with a record
    (lineage.json) from which `lora-evo verify` makes it again. `lora-evo operators` lists the
    operators.
    """
    _make("mutation", operator, [parent], **options)


@click.command()
@click.argument("operator")
@click.argument("parents", type=FOLDER, nargs=-1, required=True)
@_child_options("Weight of each parent, such as 1,3. Default: equal weights.", required=True)
def cross(operator: str, parents: tuple[Path, ...], **options: Any) -> None:
    """Make one child of two or more adapters.

    Combines the adapter directories PARENTS by OPERATOR into --out. The child has the rank and the
    configuration of the first parent, and a record (lineage.json) from which `lora-evo verify`
    makes it again. `lora-evo operators` lists the operators.
    """
    _make("crossover", operator, parents, **options)


@click.command()
@click.argument("adapters", type=FOLDER, nargs=-1, required=True)
@click.option(
    "--method", default="svd", show_default=True, metavar=f"[{'|'.join(names_of('merge'))}]",
    help="How the updates are combined; `lora-evo operators merge_METHOD` has the formula.",
)  # fmt: skip
@_child_options(
    "Weight of each update, such as 1,-0.5. Default: 1/n each.", default=0, show_default=True
)
def merge(adapters: tuple[Path, ...], method: str, **options: Any) -> None:
    """Merge several adapters into one.

    Writes an adapter to --out that combines the updates of all ADAPTERS: by default their mean.
    Ranks and alphas may differ, since updates are combined, not factors. Prints how much is cut off
    to fit the rank (the parents' largest, or --set rank=N). A negative weight subtracts:
    --weights=1,-0.5. One adapter is resized by --set rank=N, or multiplied by its weight.
    """
    _make("merge", method, adapters, **options)


@click.command()
@click.argument("child", type=FOLDER)
@click.argument("parents", type=FOLDER, nargs=-1)
@json_option
def verify(child: Path, parents: tuple[Path, ...], as_json: bool) -> None:
    """Make a child again from its record, and compare.

    CHILD is an adapter directory with a lineage.json, which names operator, seed and parents. The
    child is made again and compared bit for bit; the exit code is 1 if they differ. PARENTS are
    adapters, or folders to search for adapters with the recorded content. Default: the folder of
    CHILD.
    """
    from lora_evo.verification import verify as verify_child

    result = verify_child(child, list(parents) or None)
    say_unfit([child])
    if as_json:
        print_json(asdict(result))
    elif result.identical:
        click.echo(f"{child}: identical to the child made again from its parents")
    else:
        click.echo(f"{child}: NOT verified")
        for problem in result.problems:
            click.echo(f"  {problem}")
        if result.difference is not None:
            click.echo(f"  relative distance to the child made again: {result.difference:.3g}")
    if not result.identical:
        sys.exit(1)


def _parameters(operator: Operator) -> str:
    words = []
    for name, value in operator.defaults.items():
        word = value if isinstance(value, str) else json.dumps(value)
        words.append(f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={word}")
    return " ".join(words)
