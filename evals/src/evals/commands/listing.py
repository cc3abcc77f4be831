"""`evals list`: the benchmarks, without loading data that would have to be fetched."""

import json
from typing import Any

import click

from evals.benchmarks import function_tasks, livecodebench, math_answers, nano
from evals.benchmarks.catalog import benchmark_names, load_benchmark
from evals.commands.options import as_json as json_option
from evals.commands.options import clean_exit
from evals.recipes.render import RECIPES
from evals.runs.results_table import align
from evals.sources.official import OFFICIAL

_DESCRIPTIONS = {
    **function_tasks.DESCRIPTIONS,
    livecodebench.NAME: livecodebench.DESCRIPTION,
    **math_answers.DESCRIPTIONS,
    **nano.DESCRIPTIONS,
}


@click.command("list")
@json_option
@clean_exit
def list_benchmarks(as_json: bool) -> int:
    """List the benchmarks, where their data comes from, and the recipes that ask them."""
    rows = [_describe(name) for name in benchmark_names()]
    if as_json:
        click.echo(json.dumps(rows))
        return 0
    table = [
        [row["name"], ", ".join(map(str, row["tasks"])) or "?", row["data"], row["description"]]
        for row in rows
    ]
    click.echo(align(("benchmark", "tasks", "data", "what"), table, left=4))
    click.echo()
    asked = [[recipe.name, recipe.description] for recipe in RECIPES.values()]
    click.echo(align(("recipe", "how it asks"), asked))
    return 0


def _describe(name: str) -> dict[str, Any]:
    """tasks: the sizes that are official, smallest first. data: where it is, unless `--data`."""
    recipes = [recipe.name for recipe in RECIPES.values() if name in recipe.templates]
    if name in OFFICIAL:
        known = OFFICIAL[name]
        data = "hub" if known.hub else "evalplus"
        tasks = sorted(known.counts)
    elif name in nano.DESCRIPTIONS:
        data, tasks = "here", [len(load_benchmark(name).questions)]
        recipes = ["plain"]
    else:
        data, tasks, recipes = "added", [], []
    return {
        "name": name,
        "description": _DESCRIPTIONS.get(name, ""),
        "tasks": tasks,
        "data": data,
        "recipes": recipes,
    }
