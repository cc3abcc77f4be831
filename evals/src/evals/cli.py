"""The `evals` command: list, run, grade, report, doctor."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, get_args

import click

from evals import __version__, tables
from evals.catalog import benchmark_names, describe, load_named
from evals.console import Commands, print_error, progress_bar
from evals.errors import EvalsError
from evals.evaluation import choose_recipe, evaluate, grade_samples, make_plan
from evals.installation import inspect_installation
from evals.members import find_members
from evals.own import Grader
from evals.question import Benchmark, Grading, SampleVerdict
from evals.recipes import RECIPES, Recipe, find_recipe
from evals.records import prompts_of, recipe_next_to, saved_samples, verdict_lines
from evals.run import Run, evalplus_samples, read_runs
from evals.scores import Measure, not_judged, results
from evals.side_by_side import table_of
from lora_evo.files import check_output, write_text
from lora_evo.terminal import text_table

_PATH = click.Path(path_type=Path)
_AT_LEAST_1 = click.IntRange(min=1)
_WRITERS = {"text": tables.as_text, "markdown": tables.as_markdown}


def _split_numbers(
    _context: click.Context, _option: click.Parameter, numbers: str | None
) -> list[int]:
    parts = numbers.split(",") if numbers else []
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f"found {numbers!r}; expected whole numbers from 1, as in 1,5,10")
    return list(map(int, parts))


def _template_args(
    context: click.Context, option: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, Any]:
    """The values by name: as JSON, else as texts."""
    arguments: dict[str, Any] = {}
    for item in pairs:
        name, equals, value = item.partition("=")
        if not name or not equals or value in ("True", "False", "None"):  # true for a template
            hint = "expected NAME=VALUE, a text or JSON: true, false, null"
            raise click.BadParameter(f"found {item!r}; {hint}")
        arguments[name] = value
        with suppress(ValueError):
            arguments[name] = json.loads(value)
    return arguments


def _option(*names: str, help: str, **settings: Any) -> Callable[[Any], Any]:
    """An option whose help shows the default, if the text does not."""
    show = settings.get("default") is not None and "default" not in help
    return click.option(*names, help=help, show_default=show, **settings)


_json = _option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_data = _option(
    "--data", "files", multiple=True, metavar="[NAME=]FILE",
    help="File with a benchmark's questions, in place of the published ones; for livecodebench "
    "also a folder of shards, or a release on the hub (release_v1 to release_v6). May be repeated.",
)  # fmt: skip
_grader = _option(
    "--grader", type=click.Choice(get_args(Grader)),
    help="Grader of questions of your own: math, exact (the same text), tests (of functions) or "
    "stdio (of scripts).",
)  # fmt: skip
_recipe = _option(
    "--recipe", metavar="NAME|FILE.toml",
    callback=lambda _context, _option, name: name and find_recipe(name),
    shell_complete=lambda _context, _option, text: [n for n in RECIPES if n.startswith(text)],
    help="Prompts, sampling and lengths: a name of `evals list`, or a file of your own; default: "
    "the benchmark's own.",
)  # fmt: skip
_allow_weak = _option(
    "--allow-weak", is_flag=True, help="Grade even where the sandbox lacks its system-call filter."
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evals")
def main() -> None:
    """Run code and math benchmarks on a language model and its saved LoRA adapters."""


@main.command("list")
@_json
def list_benchmarks(as_json: bool) -> int:
    """List the benchmarks and the recipes.

    Shows each benchmark's official numbers of tasks (one per version), and the source of its
    questions without --data: the Hugging Face hub, evalplus, or another package.
    """
    rows = [describe(name) for name in benchmark_names()]
    if as_json:
        click.echo(json.dumps(rows))
        return 0
    for row in rows:
        row["name"] += f" ({', '.join(map(str, row['tasks'])) or '?'} tasks; {row['data']})"
    rows += [{**vars(recipe), "name": f"--recipe {recipe.name}"} for recipe in RECIPES.values()]
    for row in rows:
        click.echo(f"{row['name']}\n{click.wrap_text(row['description'], 80, '    ', '    ')}")
    return 0


@main.command()
@_option(
    "--model", metavar="MODEL",
    help="Base model of the adapters: a folder, a name on the Hugging Face hub, or nano, the small "
    "model of selfplay; default: the base model of the selfplay run in --adapter.",
)  # fmt: skip
@_option(
    "--adapter", "adapters", multiple=True, metavar="[NAME=]DIR[:WHICH]",
    help="Folder of a PEFT adapter, or of a selfplay run for all its living members; RUN:students, "
    "RUN:teachers, RUN:s3 and RUN:s0,t1 choose members. NAME renames an adapter; for a run, it is "
    "a prefix of its members' names. May be repeated.",
)  # fmt: skip
@_option("--base", is_flag=True, help="Also evaluate the model without an adapter.")
@_option(
    "--any-base", is_flag=True, help="Accept adapters that were trained on another base model."
)
@_option(
    "--engine", type=click.Choice(["hf", "vllm"]), default="hf",
    help="Generation engine: transformers (hf) or vLLM.",
)  # fmt: skip
@_option(
    "--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), default="auto",
    help="Number type of the model's weights; auto: as they are stored.",
)  # fmt: skip
@_option("--load-in-4bit", is_flag=True, help="Load the model in bitsandbytes' 4 bits (NF4).")
@_option(
    "--max-rows", type=_AT_LEAST_1, default=64,
    help="Responses generated at a time; fewer need less memory.",
)  # fmt: skip
@_option(
    "--benchmark", "--tasks", "benchmarks", metavar="NAME[,NAME]", required=True,
    callback=lambda _context, _option, names: list(dict.fromkeys(map(str.strip, names.split(",")))),
    help="Benchmarks to run: names of `evals list`, NAME=FILE with questions of "
    "your own (JSON Lines with --grader, or TOML with `file` and `grader`), or verifiers:TASKSET, "
    "with =TOML for values of its configuration.",
)  # fmt: skip
@_data
@_grader
@_recipe
@_option(
    "--examples", type=_PATH, metavar="FILE",
    help="Rows that a recipe shows before each question, such as GSM8K's training rows.",
)  # fmt: skip
@_option(
    "--n", type=_AT_LEAST_1,
    help="Samples per task; default: the recipe's, mostly 1. If --out holds fewer, only the "
    "missing ones are sampled.",
)  # fmt: skip
@_option(
    "--temperature", type=click.FloatRange(min=0.0),
    help="Sampling temperature; 0 always takes the likeliest token; default: the recipe's, mostly "
    "0.",
)  # fmt: skip
@_option(
    "--top-p", type=click.FloatRange(min=0.0, min_open=True, max=1.0), default=1.0,
    help="Sample only the likeliest tokens that together have this probability; default: 1, all "
    "tokens.",
)  # fmt: skip
@_option(
    "--top-k", type=click.IntRange(min=0), default=0, metavar="K",
    help="Sample only the K likeliest tokens, before --top-p applies; default: 0, all tokens.",
)  # fmt: skip
@_option(
    "--max-tokens", type=_AT_LEAST_1, help="Longest response, in tokens; default: the recipe's."
)
@_option(
    "--chat-template-args", multiple=True, metavar="NAME=VALUE", callback=_template_args,
    help="Argument of the model's chat template, such as enable_thinking=false. May be repeated.",
)  # fmt: skip
@_option(
    "--limit", type=_AT_LEAST_1, metavar="N",
    help="Ask only N tasks: the first ones, evenly from all levels if the benchmark is sorted.",
)  # fmt: skip
@_option("--seed", type=click.IntRange(min=0), default=0, help="Seed of sampling.")
@_option("--out", type=_PATH, required=True, help="Folder for responses and results.")
@_allow_weak
@_json
def run(
    model: str | None, adapters: tuple[str, ...], base: bool, any_base: bool, engine: str,
    dtype: str, load_in_4bit: bool, max_rows: int, benchmarks: list[str], files: tuple[str, ...],
    grader: str | None, out: Path, allow_weak: bool, as_json: bool, **sampling: Any,
) -> int:  # fmt: skip
    """Run benchmarks on a model and its adapters.

    To resume after an interruption, type the same command again.
    """
    check_output(out, folder=True)
    if engine == "vllm":
        from lora_evo.model import require_vllm

        require_vllm()
    plans = [make_plan(benchmark, **sampling) for benchmark in _load(benchmarks, files, grader)]
    templates = [plan.recipe.template(plan.benchmark.name) for plan in plans]
    if (examples := sampling["examples"]) and all(not t.examples_file for t in templates):
        raise EvalsError(f"--examples {examples}: no prompt shows examples of a file; see --recipe")
    for plan in plans:
        plan.benchmark.try_sandbox(allow_weak)
    members = find_members(adapters)
    named, model = members.folders, model or members.base
    if model is None:
        raise EvalsError("no base model is named; type --model nano, a folder or a hub name")
    from lora_evo.model import open_engine  # brings torch, as not all commands need

    by_plan: list[list[Run]] = []
    everyone = [*([None] if base or not named else []), *named]
    opened = open_engine(
        engine, model, named, dtype=dtype, max_rows=max_rows, any_base=any_base,
        load_in_4bit=load_in_4bit,
    )  # fmt: skip
    with closing(opened):
        for plan in plans:
            total = plan.n * len(plan.questions) * len(everyone)
            with progress_bar(plan.benchmark.name, total) as progress:
                runs = evaluate(
                    opened, plan.benchmark, everyone, groups=members.groups, out=out,
                    allow_weak=allow_weak, progress=progress, **sampling,
                )  # fmt: skip
                by_plan.append(runs)
    runs, table = table_of([run for of_adapter in zip(*by_plan, strict=True) for run in of_adapter])
    return _show(runs, [table] if table else [], as_json)


@main.command()
@click.argument("benchmark")
@click.argument("samples", type=_PATH)
@_option("--out", type=_PATH, required=True, help="JSON Lines file to write the verdicts to.")
@_data
@_grader
@_recipe
@_allow_weak
@_json
def grade(
    benchmark: str, samples: Path, out: Path, files: tuple[str, ...], grader: str | None,
    recipe: Recipe | None, allow_weak: bool, as_json: bool,
) -> int:  # fmt: skip
    """Grade saved responses, including those of evalplus.

    BENCHMARK is a name of `evals list`, or NAME=FILE. SAMPLES is a JSON Lines file with a response
    in each row: "id" and "response", or evalplus' "task_id" and "solution" or "completion".
    The recipe is --recipe, else the one in settings.json next to SAMPLES, else the benchmark's own.
    Prompts are in the rows' "prompt" or in prompts.jsonl next to SAMPLES: after one that opens a
    thought, the response is a thought until that closes. Without prompts, responses alone decide.
    """
    check_output(out)
    (loaded,) = _load([benchmark], files, grader)
    rows, notes = saved_samples(samples, loaded)
    for note in notes:
        click.echo(f"{samples}: {note}", err=True)
    chosen = choose_recipe(loaded, recipe or recipe_next_to(samples, loaded.name))
    how = Grading.of(chosen, loaded.name, allow_weak=allow_weak)
    loaded.try_sandbox(allow_weak)
    prompts, place = prompts_of(samples), f"{samples} on {loaded.name}"
    with progress_bar(loaded.name, len(rows)) as progress:
        verdicts = grade_samples(loaded, rows, prompts, how, progress, place)
    write_text(out, verdict_lines(verdicts))
    facts = results(verdicts, loaded.name)
    overall, base = facts["overall"], facts["base_rate"]
    unanswered = len(loaded.questions) - overall["tasks"]
    if as_json:
        click.echo(json.dumps({"benchmark": loaded.name, "unanswered": unanswered, **facts}))
    else:
        rate = "none graded"
        if overall["interval"] is not None:
            rate = "rate {:.3f} ({:.3f}-{:.3f})".format(overall["rate"], *overall["interval"])
        tests = "" if base is None else f"base tests alone {base:.3f}, "
        missing = f"{unanswered} of {len(loaded.questions)} tasks have no sample; of the others, "
        judged = f"{overall['samples'] - overall['ungraded']} samples right"
        lost = f" ({overall['ungraded']} not judged)" if overall["ungraded"] else ""
        click.echo(
            f"{loaded.name}: {missing if unanswered else ''}{overall['solved']} of {judged}{lost}, "
            f"{rate}, {tests}ill-formed {overall['ill_formed']:.3f}"
        )
    return _ungraded(verdicts)


@main.command()
@click.argument("folders", type=_PATH, nargs=-1, required=True)
@_option("--html", "page", type=_PATH, help="Also write a page with charts and every response.")
@_option(
    "--format", "form", type=click.Choice([*_WRITERS, "evalplus"]), default="text",
    help="Output format: a table as text or markdown, or one benchmark's samples as evalplus' "
    "samples.jsonl.",
)  # fmt: skip
@_option(
    "--k", "ks", metavar="K[,K]", callback=_split_numbers,
    help="Show pass@k, the chance that at least one of K samples is right, instead of the mean: a "
    "table for each K.",
)  # fmt: skip
@_option(
    "--measure", type=click.Choice(get_args(Measure)), default="pass@k",
    help="What --k shows: pass@k, pass^k (all of K samples are right) or maj@k (the commonest "
    "answer of the first K is right).",
)  # fmt: skip
@_option("--csv", "csv_file", type=_PATH, help="Also write every score and difference as CSV.")
@_option(
    "--against", metavar="NAME",
    help="Also compare every adapter, task by task, with this one; base: the model alone.",
)  # fmt: skip
@_json
def report(
    folders: tuple[Path, ...], page: Path | None, form: str, ks: list[int], measure: Measure,
    csv_file: Path | None, against: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Show finished results as a table or an HTML page.

    FOLDERS are searched for results, such as the --out of `evals run`. Results that cannot be read
    are named and left out; the exit code is then 1.
    """
    for path in filter(None, (page, csv_file)):
        check_output(path)
    if measure != "pass@k" and not ks:
        raise EvalsError(f"--measure {measure} needs a number of samples: --k 4")
    faults: list[str] = []
    runs = read_runs(*folders, unreadable=faults.append)
    for fault in faults:
        print_error(f"{fault}; left out", 1)
    pairs = [table_of(runs, k, against, measure) for k in (ks or (None,))]
    runs, table = pairs[0]
    scores = [each for _, each in pairs if each is not None]
    if csv_file is not None:
        write_text(csv_file, tables.as_csv(scores))
    if page is not None:
        from evals.page import page_text  # slow to import

        write_text(page, page_text(runs, table))
        click.echo(f"report: {page}", err=True)
    if form == "evalplus":
        click.echo(evalplus_samples(runs))
        return 1 if faults else 0
    return max(_show(runs, scores, as_json, form), 1 if faults else 0)


@main.command()
@_json
def doctor(as_json: bool) -> int:
    """Check the installation, the device and the sandbox.

    Shows versions, the device that models run on, and which layers of the sandbox are active; the
    exit code is 1 if there is a problem.
    """
    facts = inspect_installation()
    if as_json:
        click.echo(json.dumps(facts))
        return 1 if facts["problems"] else 0
    for name, text in {**facts["versions"], "device": facts["device"]}.items():
        click.echo(f"{name:14} {text}")
    for layer, active in facts["layers"].items():
        click.echo(f"{'sandbox':14} {layer} {'active' if active else 'MISSING'}")
    return max([print_error(problem, 1) for problem in facts["problems"]], default=0)


def _load(names: Sequence[str], specs: Sequence[str], grader: str | None) -> list[Benchmark]:
    """The benchmarks, and a line on the error stream about the data of each."""
    benchmarks = load_named(names, specs, grader)
    for benchmark in benchmarks:
        if benchmark.notes:
            notes = "; ".join(benchmark.notes)
            click.echo(f"{benchmark.name}: {notes} ({benchmark.content_hash})", err=True)
    return benchmarks


def _show(
    runs: Sequence[Run], scores: Sequence[tables.Table], as_json: bool, form: str = "text"
) -> int:
    """Print finished runs; the exit code says whether every sample has a verdict."""
    if as_json:
        sections = [{"table": t.as_json(), "comparisons": t.differences_as_json()} for t in scores]
        first: dict[str, Any] = sections[0] if sections else {"table": None, "comparisons": []}
        results = [run.as_json() for run in runs]
        click.echo(json.dumps({"results": results, **first, "more": sections[1:]}))
    for table in () if as_json else scores:
        click.echo("\n" * (table is not scores[0]) + _WRITERS[form](table))
        if table.differences:
            pairs = ((r.label, r.against, r.column, r) for r in table.differences)
            rows = ((*names, *tables.pair_cells(row)) for *names, row in pairs)
            head = ("adapter", "minus", "benchmark", *tables.PAIR_COLUMNS)
            click.echo("\n" + text_table(head, rows, left=3))
    return _ungraded([verdict for run in runs for verdict in run.verdicts])


def _ungraded(verdicts: Sequence[SampleVerdict]) -> int:
    """The exit code of a command that shows verdicts, and a line if some are missing."""
    lost = not_judged(verdicts)
    return print_error(f"{lost}; they are not counted", 1) if lost else 0
