"""Commands that make children: `lora-evo operators`, `mutate`, `cross`, `merge`, `verify`."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from lora_evo.commands.terminal import FOLDER, json_option, number, print_json, text_table
from lora_evo.errors import LoraEvoError
from lora_evo.lineage import Lineage
from lora_evo.operators.operator import OPERATORS, VERBS, Operator


@click.command()
@click.argument("name", required=False, type=click.Choice(list(OPERATORS)), metavar="[NAME]")
@json_option
def operators(name: str | None, as_json: bool) -> None:
    """List the operators, or describe the one called NAME: formula, source, what it preserves."""
    if name is not None:
        operator = OPERATORS[name]
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
        header = ("name", "kind", "strength", "parameters", "what it does")
        rows = [
            (one.name, one.kind, number(one.default_strength), _parameters(one) or "-", one.summary)
            for one in OPERATORS.values()
        ]
        click.echo(text_table(header, rows, left=len(header)))
        click.echo("More about one of them: lora-evo operators NAME")


def _row(operator: Operator) -> dict[str, Any]:
    fields = ("name", "kind", "summary", "preserves")
    return {
        **{field: getattr(operator, field) for field in fields},
        "strength": operator.default_strength,
        "parameters": dict(operator.defaults),
    }


def _names(kind: str) -> list[str]:
    return [name for name, operator in OPERATORS.items() if operator.kind == kind]


METHODS = [name.removeprefix("merge_") for name in _names("merge")]


def _child_options(**seed: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options of all commands that make children; seed: settings of `--seed`."""
    options = (
        click.option("--out", type=FOLDER, required=True, help="New directory for the child."),
        click.option("--seed", type=int, help="Random seed.", **seed),
        click.option(
            "--set", "settings", multiple=True, metavar="K=V",
            help="A parameter of the operator, for example level=layer; may be repeated.",
        ),
        click.option("--overwrite", is_flag=True, help="Replace an existing output."),
        json_option,
    )  # fmt: skip

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


@click.command()
@click.argument("operator", type=click.Choice(_names("mutation")), metavar="OPERATOR")
@click.argument("parent", type=FOLDER)
@click.option("--strength", type=float, help="Relative change of the update, for example 0.15.")
@_child_options(required=True)
def mutate(
    operator: str, parent: Path, out: Path, settings: Sequence[str], as_json: bool, **options: Any
) -> None:
    """Write a mutated child of PARENT to --out; `lora-evo operators` lists the operators."""
    from lora_evo.children import mutate_directory

    options |= _parameters_from(OPERATORS[operator], settings)
    _print_child(mutate_directory(operator, parent, out, **options), out, as_json)


@click.command()
@click.argument("operator", type=click.Choice(_names("crossover")), metavar="OPERATOR")
@click.argument("parents", type=FOLDER, nargs=-1, required=True)
@click.option("--weights", metavar="W,W,...", help="A weight for each parent, for example 1,3.")
@_child_options(required=True)
def cross(
    operator: str,
    parents: tuple[Path, ...],
    weights: str | None,
    out: Path,
    settings: Sequence[str],
    as_json: bool,
    **options: Any,
) -> None:
    """Write a child of all PARENTS to --out, in the first one's rank and configuration."""
    from lora_evo.children import cross_directory

    options |= _parameters_from(OPERATORS[operator], settings) | {"weights": _numbers(weights)}
    _print_child(cross_directory(operator, parents, out, **options), out, as_json)


@click.command()
@click.argument("adapters", type=FOLDER, nargs=-1, required=True)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="What to do with the updates; `lora-evo operators merge_METHOD` has its formula.",
)
@click.option("--weights", metavar="W,W,...", help="What each update counts, as it is (1/n each).")
@_child_options(default=0, show_default=True)
def merge(
    adapters: tuple[Path, ...],
    method: str,
    weights: str | None,
    out: Path,
    settings: Sequence[str],
    as_json: bool,
    **options: Any,
) -> None:
    """Write one adapter that holds what all ADAPTERS do to --out.

    Updates are added, not factors, so that ranks and alphas may differ; what did not fit into the
    rank (the first adapter's, or --set rank=N) is said. A negative weight takes an adapter out of
    the others: --weights=1,-0.5.
    """
    from lora_evo.children import merge_directory

    given = _parameters_from(OPERATORS[f"merge_{method}"], settings)
    options |= given | {"weights": _numbers(weights)}
    _print_child(merge_directory(adapters, out, method, **options), out, as_json)


@click.command()
@click.argument("child", type=FOLDER)
@click.argument("parents", type=FOLDER, nargs=-1)
@json_option
def verify(child: Path, parents: tuple[Path, ...], as_json: bool) -> None:
    """Make CHILD again from its lineage and compare bit for bit.

    PARENTS are adapters or folders to search; by default the folder that holds CHILD.
    """
    from lora_evo.children import verify as verify_child

    result = verify_child(child, list(parents) or None)
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


def _parameters_from(operator: Operator, pairs: Sequence[str]) -> dict[str, Any]:
    """Return `k=v` words as parameters; a value is JSON where it parses, else text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found or name in values:
            raise LoraEvoError(f"--set {pair}: expected NAME=VALUE, each name once")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    operator.check_parameters(values)
    return values


def _numbers(weights: str | None) -> list[float] | None:
    try:
        return None if weights is None else [float(word) for word in weights.split(",")]
    except ValueError as error:
        raise LoraEvoError(f"--weights {weights}: expected numbers joined by commas") from error


def _print_child(record: Lineage, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(asdict(record))
        return
    change = number(record.relative_change, "from zero", 6)
    click.echo(
        f"{out}: {record.operator} seed {record.seed}, generation {record.generation}, "
        f"{len(record.modules)} modules, relative change {change}, "
        f"truncation loss {record.truncation_loss:.3g}, "
        f"optimiser moments {'valid' if record.moments_valid else 'to be reset'}"
    )


def _parameters(operator: Operator) -> str:
    words = []
    for name, value in operator.defaults.items():
        word = value if isinstance(value, str) else json.dumps(value)
        words.append(f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={word}")
    return " ".join(words)
