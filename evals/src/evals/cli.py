"""The `evals` command: list, run, grade, report, doctor."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import wraps
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, ParamSpec

import click

from code_verifier import CodeVerifierError, Sandbox, SandboxUnavailable
from evals import __version__
from evals.benchmark import Benchmark, Data, Grading
from evals.catalog import DESCRIPTIONS, added_benchmarks, benchmark_names, load_benchmark
from evals.errors import EvalsError, did_you_mean, first_line
from evals.evaluation import BASE, choose_recipe, choose_sampling, device, evaluate, versions
from evals.formats import evalplus_samples
from evals.members import find_members
from evals.recipes import RECIPES
from evals.records import sample_lines, saved_samples, verdict_lines
from evals.results import base_rate, read_runs, score, score_levels
from evals.run_folder import open_verdicts
from evals.side_by_side import PAIR_COLUMNS, Pair, SideBySide, pair_cells, side_by_side
from evals.sources import OFFICIAL, parse_object
from evals.tables import align, to_markdown, to_text
from lora_evo import EngineStopped, LoraEvoError, check_output, write_text

_P = ParamSpec("_P")
_PATH = click.Path(path_type=Path)
_OURS = {"populab-evals", "populab-workspace"}
_WRITERS = {"text": to_text, "markdown": to_markdown}


def clean_exit(command: Callable[_P, int]) -> Callable[_P, None]:
    """Turn the command's return value and its errors into an exit code and one line.

    0: done. 1: the work found a problem or was stopped. 2: wrong usage. 130: interrupted.
    """

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except (SandboxUnavailable, EngineStopped) as error:
            code = _fail(str(error), 1)
        except (EvalsError, CodeVerifierError, LoraEvoError) as error:
            code = _fail(str(error), 2)
        except KeyboardInterrupt:
            code = _fail("interrupted; finished samples are kept, the same command resumes", 130)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            misplaced = isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError)
            code = _fail(f"{place}{error.strerror or error}", 2 if misplaced else 1)
        sys.exit(code)

    return wrapped


def _fail(text: str, code: int) -> int:
    click.echo(f"error: {text}", err=True)
    return code


def _split_names(_context: click.Context, _option: click.Parameter, names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",")))


def _template_args(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any]:
    """Return the values by name: as JSON has them, else as texts."""
    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"found {item!r}; expected NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_data = click.option(
    "--data",
    "files",
    multiple=True,
    metavar="[NAME=]FILE",
    help="File with a benchmark's questions, in place of the published ones; for livecodebench "
    "also a folder of shards, or a release on the hub (release_v1 to release_v6). May repeat.",
)
_recipe = click.option(
    "--recipe",
    type=click.Choice(list(RECIPES)),
    help="How questions are asked: prompts, sampling and lengths, as `evals list` describes them; "
    "default: the benchmark's own.",
)
_allow_weak = click.option(
    "--allow-weak", is_flag=True, help="Grade even where the sandbox lacks its system-call filter."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evals")
def main() -> None:
    """Run code and math benchmarks on a language model and its saved LoRA adapters."""


@main.command("list")
@_json
@clean_exit
def list_benchmarks(as_json: bool) -> int:
    """List the benchmarks, and the recipes that ask them.

    Tasks are the official sizes; data is where questions come from unless --data names a file: the
    Hugging Face hub, evalplus, or the package that brings them.
    """
    rows = [_described(name) for name in benchmark_names()]
    if as_json:
        click.echo(json.dumps(rows))
        return 0
    table = [
        [row["name"], ", ".join(map(str, row["tasks"])) or "?", row["data"], row["description"]]
        for row in rows
    ]
    click.echo(align(("benchmark", "tasks", "data", "what"), table, left=4))
    asked = [[recipe.name, recipe.description] for recipe in RECIPES.values()]
    click.echo("\n" + align(("recipe", "how it asks"), asked))
    return 0


@main.command()
@click.option(
    "--model",
    metavar="MODEL",
    help="Base model of the adapters: a folder, a name on the Hugging Face hub, or nano, the small "
    "model that selfplay brings; default: the one that a selfplay run names.",
)
@click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="[NAME=]DIR[:WHICH]",
    help="Folder of a PEFT adapter, or of a selfplay run for its living members. RUN:students, "
    "RUN:teachers, RUN:s3 and RUN:s0,t1 choose some of them. NAME renames an adapter, and with a "
    "run it begins the names of its members. May repeat.",
)
@click.option("--base", is_flag=True, help="Also evaluate the model without an adapter.")
@click.option(
    "--any-base", is_flag=True, help="Accept adapters whose files name another base model."
)
@click.option(
    "--engine",
    type=click.Choice(["hf", "vllm"]),
    default="hf",
    show_default=True,
    help="What generates responses: transformers (hf) or vLLM.",
)
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    default="auto",
    show_default=True,
    help="Number type of the model's weights; auto: the one that they are stored in.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Responses generated at a time; fewer need less memory.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    metavar="NAME[,NAME]",
    callback=_split_names,
    required=True,
    help="Benchmarks to run, by the names that `evals list` shows.",
)
@_data
@_recipe
@click.option(
    "--n",
    type=click.IntRange(min=1),
    help="Samples per task; default: 1.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0.0),
    help="Sampling temperature; 0 always takes the likeliest token; default: 0.",
)
@click.option(
    "--top-p",
    type=click.FloatRange(min=0.0, min_open=True, max=1.0),
    default=1.0,
    help="Sample among the likeliest tokens, which together have this probability; default: 1, all "
    "tokens.",
)
@click.option(
    "--top-k",
    type=click.IntRange(min=0),
    default=0,
    metavar="K",
    help="Sample among the K likeliest tokens, chosen before --top-p; default: 0, all tokens.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    help="Longest response, in tokens; default: the recipe's.",
)
@click.option(
    "--chat-template-args",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_template_args,
    help="Argument of the model's chat template, such as enable_thinking=false. May repeat.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ask only the first N tasks; of benchmarks sorted by level, the first of every level.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of sampling."
)
@click.option("--out", type=_PATH, required=True, help="Folder for responses and results.")
@_allow_weak
@_json
@clean_exit
def run(
    model: str | None,
    adapters: tuple[str, ...],
    base: bool,
    any_base: bool,
    engine: str,
    dtype: str,
    max_rows: int,
    benchmarks: list[str],
    files: tuple[str, ...],
    out: Path,
    as_json: bool,
    **asked: Any,
) -> int:
    """Run benchmarks on a model and its adapters.

    The same command resumes where a run stopped.
    """
    check_output(out, folder=True)
    if engine == "vllm":
        from lora_evo.model import require_vllm

        require_vllm()
    found = _load(benchmarks, files)
    sampling = asked["recipe"], asked["n"], asked["temperature"]
    cut = asked["top_p"] < 1 or asked["top_k"] > 0
    counts = [choose_sampling(benchmark, *sampling, cut=cut)[1] for benchmark in found]
    members = find_members(adapters)
    named, model = members.folders, model or members.base
    if model is None:
        raise EvalsError("no base model is named; type --model nano, a folder or a hub name")
    from lora_evo.model import open_engine, sharing  # brings torch, as not all commands need

    everyone: list[str | None] = [*([None] if base or not named else []), *named]
    for group in sharing(everyone, named):
        folders = {name: named[name] for name in group if name is not None}
        opened = open_engine(
            engine, model, folders, dtype=dtype, max_rows=max_rows, any_base=any_base
        )
        with closing(opened):
            for benchmark, count in zip(found, counts, strict=True):
                total = count * len(benchmark.part(asked["limit"])) * len(group)
                with _progress(benchmark.name, total) as progress:
                    evaluate(
                        opened,
                        benchmark,
                        group,
                        **asked,
                        groups=members.groups,
                        out=out,
                        progress=progress,
                    )
        del opened  # before the next one is loaded
    places = [out / (name or BASE) / each.name for name in everyone for each in found]
    return _show(side_by_side(read_runs(places)), as_json)


@main.command()
@click.argument("benchmark")
@click.argument("samples", type=_PATH)
@click.option("--out", type=_PATH, required=True, help="JSON Lines file to write the verdicts to.")
@_data
@_recipe
@_allow_weak
@_json
@clean_exit
def grade(
    benchmark: str,
    samples: Path,
    out: Path,
    files: tuple[str, ...],
    recipe: str | None,
    allow_weak: bool,
    as_json: bool,
) -> int:
    """Grade saved responses, also those of evalplus.

    BENCHMARK is one of `evals list`; SAMPLES is a JSON Lines file with a response a row: "id" and
    "response", or evalplus' "task_id" and "solution" or "completion".
    Without --recipe, responses are taken as answers to the recipe that the settings.json next to
    them names, or else to the benchmark's own. The same command resumes where it was stopped.
    """
    check_output(out)
    (found,) = _load([benchmark], files)
    rows, notes = saved_samples(samples, found)
    for note in notes:
        click.echo(f"{samples}: {note}", err=True)
    asked = choose_recipe(found, recipe or _recipe_next_to(samples))
    how = Grading.of(asked, found.name, allow_weak=allow_weak)
    named = {question.id: question for question in found.questions}
    of_samples = hashlib.blake2b(sample_lines(rows).encode(), digest_size=16).hexdigest()
    job = {**asked.settings(found.name), "benchmark": found.name}
    job |= {"benchmark_hash": found.content_hash, "samples": of_samples, "versions": versions()}
    with open_verdicts(out, job) as (kept, keep), _progress(found.name, len(rows)) as progress:
        known = {(v.id, v.sample): v for v in kept if v.correct is not None}
        if known:
            click.echo(f"{out}: resuming, {len(known)} samples were graded before", err=True)
        progress("grade", len(known))
        missing = [(named[r.id], r) for r in rows if (r.id, r.sample) not in known]
        for verdict in found.grade(missing, how) if missing else ():
            keep(verdict)
            known[verdict.id, verdict.sample] = verdict
            progress("grade", 1)
        verdicts = [known[r.id, r.sample] for r in rows]
        write_text(out, verdict_lines(verdicts))
    overall, base = score(verdicts, found.name), base_rate(verdicts)
    unanswered = len(named) - overall.tasks
    if as_json:
        levels = {level: asdict(part) for level, part in score_levels(verdicts, found.name).items()}
        summary = {"benchmark": found.name, "unanswered": unanswered, "base_rate": base}
        click.echo(json.dumps({**summary, "overall": asdict(overall), "levels": levels}))
    else:
        rate = "none graded"
        if overall.rate is not None and overall.interval is not None:
            rate = "rate {:.3f} ({:.3f}-{:.3f})".format(overall.rate, *overall.interval)
        tests = "" if base is None else f"base tests alone {base:.3f}, "
        click.echo(
            f"{found.name}: {overall.solved} of {overall.samples} samples right, {rate}, "
            f"{tests}ill-formed {overall.ill_formed:.3f}, {unanswered} tasks without a sample"
        )
    return _ungraded(overall.ungraded)


@main.command()
@click.argument("folders", type=_PATH, nargs=-1, required=True)
@click.option(
    "--html", "page", type=_PATH, help="Also write a page with charts and every response."
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*_WRITERS, "evalplus"]),
    default="text",
    show_default=True,
    help="Output format: a table as text or markdown, or one benchmark's samples as evalplus' "
    "samples.jsonl.",
)
@click.option(
    "--k",
    type=click.IntRange(min=1),
    metavar="K",
    help="Show pass@k, the chance that one of K samples is right, not the mean over samples.",
)
@click.option(
    "--against",
    metavar="NAME",
    help="Also compare every adapter with this one, such as base, task by task.",
)
@_json
@clean_exit
def report(
    folders: tuple[Path, ...],
    page: Path | None,
    form: str,
    k: int | None,
    against: str | None,
    as_json: bool,
) -> int:
    """Show finished results as a table or an HTML page.

    FOLDERS hold results, or have them below, such as the --out of `evals run`. What cannot be read
    is named and left out; the exit code is then 1.
    """
    if page is not None:
        check_output(page)
    left_out: list[str] = []
    runs = read_runs(folders, left_out.append)
    for reason in left_out:
        _fail(f"{reason}; left out", 1)
    shown = side_by_side(runs, k, against)
    if page is not None:
        from evals.report import page_text  # slow to import

        write_text(page, page_text(shown))
        click.echo(f"report: {page}", err=True)
    if form == "evalplus":
        click.echo(evalplus_samples(runs))
        return 1 if left_out else 0
    return max(_show(shown, as_json, form), 1 if left_out else 0)


@main.command()
@_json
@clean_exit
def doctor(as_json: bool) -> int:
    """Check the installation, the device and the sandbox.

    Shows versions, what models run on, and which layers of the sandbox are active; the exit code is
    1 where something is wrong.
    """
    problems: list[str] = []
    layers: dict[str, bool] = {}
    try:
        with Sandbox(workers=1, allow_weak=True) as sandbox:
            layers = sandbox.layers()
            verdict = sandbox.check("def f(x):\n    return x + 1", "1")
        if verdict.output != "2":
            problems.append(f"a test program ended with {verdict.status}: {verdict.reason}")
    except SandboxUnavailable as error:
        problems.append(f"no sandbox: {error}")
    if layers.get("seccomp") is False:
        problems.append(
            "the sandbox lacks seccomp: grading needs --allow-weak (see code-verifier doctor)"
        )
    for rival in sorted(set(packages_distributions().get("evals", ())) - _OURS):
        problems.append(
            f"{rival} also installs a package called evals, and one overwrites the other; "
            f"type: {sys.executable} -m pip uninstall {rival}, then install evals again"
        )
    if as_json:
        found = {"versions": versions(), "device": device(), "layers": layers}
        click.echo(json.dumps(found | {"problems": problems}))
        return 1 if problems else 0
    for name, number in versions().items():
        click.echo(f"{name:14} {number}")
    click.echo(f"{'device':14} {device()}")
    for layer, active in layers.items():
        click.echo(f"{'sandbox':14} {layer} {'active' if active else 'MISSING'}")
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    return 1 if problems else 0


def _described(name: str) -> dict[str, Any]:
    """tasks: the sizes that are official, smallest first. data: where it is, unless `--data`."""
    if (known := OFFICIAL.get(name)) is not None:
        tasks, description = sorted(known.counts), DESCRIPTIONS[name]
        data = "hub" if known.hub else "evalplus"
        recipes = [recipe.name for recipe in RECIPES.values() if name in recipe.templates]
    else:
        tasks, data, recipes = [], added_benchmarks()[name].module, []
        try:
            benchmark = load_benchmark(name)
            tasks, description = [len(benchmark.questions)], benchmark.description
        except Exception as error:  # of another package, which may raise anything
            description = f"cannot be loaded: {first_line(error)}"
    return {
        "name": name,
        "description": description,
        "tasks": tasks,
        "data": data,
        "recipes": recipes,
    }


def _load(names: Sequence[str], specs: Sequence[str]) -> list[Benchmark]:
    """The benchmarks, and a line on the error stream about the data of each."""
    files: dict[str, str] = {}
    for spec in specs:
        name, equals, file = spec.partition("=")
        if not equals or name not in benchmark_names():
            if len(names) > 1:
                raise EvalsError(f"--data {spec} is for one of {', '.join(names)}; type NAME=FILE")
            name, file = names[0], spec
        if name not in names:
            raise EvalsError(f"--data {spec}: {name} is not asked for; {did_you_mean(name, names)}")
        if name in files:
            raise EvalsError(f"--data names two files for {name}")
        files[name] = file
    found = []
    for name in names:
        given = files.get(name)
        release = name in OFFICIAL and given in OFFICIAL[name].releases
        benchmark = load_benchmark(name, Data(release=given) if release else Data(given))
        found.append(benchmark)
        if benchmark.notes:
            notes = "; ".join(benchmark.notes)
            click.echo(f"{name}: {notes} ({benchmark.content_hash})", err=True)
    return found


def _show(shown: SideBySide, as_json: bool, form: str = "text") -> int:
    """Print finished runs; the exit code says whether every sample has a verdict."""
    if as_json:
        click.echo(json.dumps(shown.as_json()))
    else:
        if shown.table is not None:
            click.echo(_WRITERS[form](shown.table))
        if shown.pairs:
            click.echo("\n" + _pair_lines(shown.pairs))
    return _ungraded(sum(run.result.overall.ungraded for run in shown.runs))


def _pair_lines(pairs: Sequence[Pair]) -> str:
    rows = [[pair.adapter, pair.against, pair.benchmark, *pair_cells(pair)] for pair in pairs]
    return align(("adapter", "minus", "benchmark", *PAIR_COLUMNS), rows, left=3)


def _ungraded(count: int) -> int:
    """The exit code of a command in which the sandbox failed on `count` samples."""
    if count:
        click.echo(f"error: the sandbox failed on {count} samples; they are not counted", err=True)
    return 1 if count else 0


def _recipe_next_to(samples: Path) -> str | None:
    """The recipe that `evals run` wrote next to its samples."""
    try:
        found = parse_object((samples.parent / "settings.json").read_bytes(), "")
    except (OSError, EvalsError):
        return None
    name = found.get("recipe")
    return name if isinstance(name, str) else None


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """A bar for each phase on the error stream; it is advanced by a phase and a number."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(file=sys.stderr)) as progress:
        tasks: dict[str, TaskID] = {}

        def advance(phase: str, count: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(f"{label}: {phase}", total=total)
            progress.advance(tasks[phase], count)

        yield advance
