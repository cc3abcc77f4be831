"""`evals run`: adapters on benchmarks."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import click

from code_verifier import Sandbox
from evals.commands.data_options import data_options, judging_options, where
from evals.commands.options import allow_weak as allow_weak_option
from evals.commands.options import as_json as json_option
from evals.commands.options import clean_exit, model_options, sampling_options
from evals.commands.progress import bars
from evals.commands.showing import show
from evals.errors import EvalsError
from evals.runs.evaluation import BASE, choose, choose_recipe, evaluate_together
from evals.runs.result import Result
from evals.vllm_engine.installed import require_vllm


@click.command()
@model_options
@click.option(
    "--benchmark", "benchmarks", multiple=True, required=True, help="NAME[,NAME]; may repeat."
)
@data_options
@sampling_options
@judging_options
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder for samples and results."
)
@allow_weak_option
@json_option
@clean_exit
def run(
    model: str | None,
    adapters: tuple[str, ...],
    population: Path | None,
    base: bool,
    any_base: bool,
    engine: str,
    device: str,
    dtype: str,
    max_rows: int,
    benchmarks: tuple[str, ...],
    files: tuple[str, ...],
    release: str | None,
    since: str | None,
    until: str | None,
    recipe: str | None,
    n: int | None,
    temperature: float | None,
    max_tokens: int | None,
    limit: int | None,
    seed: int,
    compat: bool,
    workers: int | None,
    out: Path,
    allow_weak: bool,
    as_json: bool,
) -> int:
    """Evaluate adapters on benchmarks; the same command goes on where a run stopped."""
    if engine == "vllm":
        require_vllm()
    found = where(files, release, since, until).load(_names(benchmarks))
    recipes = [choose_recipe(benchmark, recipe) for benchmark in found]
    for benchmark, chosen in zip(found, recipes, strict=True):
        chosen.template(benchmark.name)
        if (n or chosen.n) > 1 and (
            chosen.temperature if temperature is None else temperature
        ) == 0:
            raise EvalsError(f"--n {n} at temperature 0 gives equal samples; add --temperature 1")
    from evals.engine.adapters import (  # torch comes in here, not for `evals list`
        members_of,
        name_adapters,
    )
    from evals.engine.hf import HFEngine
    from evals.vllm_engine.saved import VLLMEngine

    named = name_adapters(adapters)
    if population is not None:
        members, shared = members_of(population)
        twice = next((name for name in members if name in named), None)
        if twice is not None:
            raise EvalsError(f"{population} has a member {twice!r} too; name the other NAME=DIR")
        named, model = {**members, **named}, model or shared
    if model is None:
        raise EvalsError("no base model is named; type --model nano, a folder or a hub name")
    out.mkdir(parents=True, exist_ok=True)
    everyone: list[str | None] = [*([None] if base or not named else []), *named]
    results: list[Result] = []
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(allow_weak=allow_weak))
        opened = VLLMEngine if engine == "vllm" else HFEngine
        loaded = stack.enter_context(
            closing(
                opened(
                    model, named, device=device, dtype=dtype, max_rows=max_rows, any_base=any_base
                )
            )
        )
        for benchmark, chosen in zip(found, recipes, strict=True):
            total = (n or chosen.n) * len(choose(benchmark, limit)) * len(everyone)
            with bars(benchmark.name, total) as progress:
                results += evaluate_together(
                    loaded,
                    benchmark,
                    everyone,
                    n,
                    temperature,
                    recipe=chosen,
                    max_tokens=max_tokens,
                    limit=limit,
                    seed=seed,
                    places={m: out / (m or BASE) / benchmark.name for m in everyone},
                    sandbox=sandbox,
                    workers=workers,
                    compat=compat,
                    allow_weak=allow_weak,
                    progress=progress,
                )
    return show(results, [out], as_json)


def _names(options: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name.strip() for option in options for name in option.split(",")))
