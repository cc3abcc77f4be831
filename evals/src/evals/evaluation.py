"""Evaluate adapters on a benchmark: plan the requests, sample responses, grade them."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from code_verifier import SandboxUnavailable, completion_text
from evals.catalog import load_benchmark
from evals.data import read_file
from evals.errors import EvalsError
from evals.installation import versions
from evals.members import BASE, Group
from evals.question import NO_ROOM, Benchmark, Grading, Question, Sample, SampleVerdict
from evals.recipes import Recipe, draw_shots, find_recipe, render
from evals.run import Key, Run, Settings, add_samples, open_folder, read_run, write_run
from evals.scores import not_judged
from lora_evo import LoraEvoError
from lora_evo.model import Engine, Request, before_stop

_BATCH = 64
Progress: TypeAlias = Callable[[str, int], None]


class Sampling(TypedDict, total=False):
    """How a benchmark is asked; every item is optional.

    recipe, n (samples a question), temperature, max_tokens: None is the benchmark's own. examples:
    the file of a recipe's examples. top_p, top_k: as in `Request`. limit: ask only the first
    questions. chat_template_args: of the chat template, such as {"enable_thinking": False}.
    """

    recipe: Recipe | str | None
    examples: Path | None
    n: int | None
    temperature: float | None
    top_p: float
    top_k: int
    max_tokens: int | None
    limit: int | None
    seed: int
    chat_template_args: Mapping[str, Any] | None


@dataclass(frozen=True)
class Plan:
    """A benchmark and how it is asked; made by `make_plan`. request: without prompt and seed."""

    benchmark: Benchmark
    questions: Sequence[Question]
    recipe: Recipe
    n: int
    request: Request
    limit: int | None
    seed: int
    chat_template_args: Mapping[str, Any]

    def prompts(self, tokenizer: Any) -> dict[str, str]:
        """Return the prompt of each question. Raises EvalsError."""
        name, template = self.benchmark.name, self.recipe.template(self.benchmark.name)
        everyone, asked = self.benchmark.questions, {question.id for question in self.questions}
        rows = read_file(Path(template.examples_file)).rows if template.examples_file else ()
        drawn = draw_shots(template, [question.fields for question in everyone], rows)
        return {
            q.id: render(self.recipe, name, q.fields, tokenizer, self.chat_template_args, shots)
            for q, shots in zip(everyone, drawn, strict=True)
            if q.id in asked
        }

    def settings(self, prompts: Mapping[str, str]) -> Settings:
        """Return the settings that must be the same when a run resumes."""
        request, text = self.request, json.dumps(prompts, sort_keys=True)
        return {
            "benchmark_hash": self.benchmark.content_hash,
            "prompts_hash": f"blake2b:{blake2b(text.encode(), digest_size=16).hexdigest()}",
            "n": self.n,
            "temperature": float(request.temperature),
            "max_tokens": request.max_tokens,
            "limit": self.limit,
            "seed": self.seed,
            **self.recipe.settings(self.benchmark.name),
            **({} if self.benchmark.published else {"published": False}),
            **({"top_p": float(request.top_p)} if request.top_p < 1 else {}),
            **({"top_k": request.top_k} if request.top_k else {}),
            **({"chat_template_args": dict(args)} if (args := self.chat_template_args) else {}),
        }

    def requests(self, adapter: str | None, prompts: Mapping[str, str]) -> dict[Key, Request]:
        """Return the request of each sample, in the order of the questions."""
        run, request = (self.seed, self.benchmark.name), replace(self.request, adapter=adapter)
        return {
            (q, i): replace(request, prompt=text, seed=sample_seed(*run, q, i))
            for q, text in prompts.items()
            for i in range(self.n)
        }


def make_plan(benchmark: Benchmark | str, **sampling: Unpack[Sampling]) -> Plan:
    """Decide how a benchmark is asked. Raises EvalsError for a recipe that does not cover it, for
    samples that would all be equal, and for top-p or top-k where nothing is sampled."""
    loaded = load_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    recipe = choose_recipe(loaded, sampling.get("recipe"), sampling.get("examples"))
    n, temperature = sampling.get("n") or recipe.n, sampling.get("temperature")
    temperature = recipe.temperature if temperature is None else temperature
    top_p, top_k = sampling.get("top_p", 1.0), sampling.get("top_k", 0)
    template = recipe.template(loaded.name)
    if not (0 <= temperature < float("inf") and 0 < top_p <= 1):
        raise EvalsError(f"temperature {temperature:g} and top-p {top_p:g} cannot be sampled with")
    if n > 1 and temperature == 0:
        raise EvalsError(f"{n} samples at temperature 0 are all the same; add --temperature 1")
    if (top_p < 1 or top_k > 0) and temperature == 0:
        raise EvalsError("top-p and top-k do nothing at temperature 0; add --temperature 1")
    request = Request(
        "", max_tokens=sampling.get("max_tokens") or template.max_tokens, temperature=temperature,
        stop=template.stop, special_tokens=template.mode == "completion", top_p=top_p, top_k=top_k,
    )  # fmt: skip
    limit, seed = sampling.get("limit"), sampling.get("seed", 0)
    args = sampling.get("chat_template_args") or {}
    return Plan(loaded, loaded.part(limit), recipe, n, request, limit, seed, args)


def evaluate(
    engine: Engine,
    benchmark: Benchmark | str,
    adapters: Sequence[str | None] = (None,),
    *,
    groups: Mapping[str, Group | None] | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    allow_weak: bool = False,
    progress: Progress | None = None,
    **sampling: Unpack[Sampling],
) -> list[Run]:
    """Sample responses of adapters (None is the base model) to every question and grade them.

    Adapters share batches and seeds, so that they are paired. groups: roles and runs of adapters,
    from `find_members`, stored with the results. out: samples, verdicts and result are written to
    ADAPTER/BENCHMARK in this folder; a run that stopped resumes there, and another `n` or `limit`
    samples only what is missing. workers: programs graded at a time; None is one for each core.
    allow_weak: grade even where the sandbox has no system-call filter. progress: called with "ask"
    or "grade" and the number of samples just done. sampling: recipe, n, temperature, top_p, top_k,
    max_tokens, limit, seed, chat_template_args; see `Sampling`.

    Raises EvalsError for unusable arguments, SettingsChanged when a folder holds another run, and
    SandboxUnavailable where programs cannot be judged: before anything is sampled, or when more
    than half of an adapter's samples have no verdict. These are graded when the run resumes.

        >>> from lora_evo.model import open_engine
        >>> members = find_members(["runs/mine:students"])
        >>> engine = open_engine("hf", members.base, members.folders)
        >>> runs = evaluate(
        ...     engine, "gsm8k", list(members.folders), groups=members.groups, out="scores"
        ... )
        >>> print(runs[0].overall.value, runs[0].overall.interval)
    """
    plan = make_plan(benchmark, **sampling)
    prompts = plan.prompts(getattr(engine, "tokenizer", None))
    common = plan.settings(prompts)
    identity = getattr(engine, "identity", lambda _: {"engine": type(engine).__name__})  # optional
    report, groups = progress or (lambda phase, count: None), groups or {}
    how = Grading.of(plan.recipe, plan.benchmark.name, workers, allow_weak)
    plan.benchmark.try_sandbox(allow_weak)
    with ExitStack() as stack:
        parts = []
        for adapter in adapters:
            settings, name = common | dict(identity(adapter)), adapter or BASE
            requests = plan.requests(adapter, prompts)
            folder, samples, earlier = None, {}, None
            if out is not None:
                folder = Path(out) / name / plan.benchmark.name
                samples = stack.enter_context(open_folder(folder, settings, prompts))
                earlier = _read_finished(folder, settings, requests.keys())
            run = earlier or Run(
                adapter=name,
                benchmark=plan.benchmark.name,
                partial=len(plan.questions) < len(plan.benchmark.questions),
                settings=settings,
                versions=versions(),
                prompts=prompts,
                folder=folder and folder.resolve(),
            )
            run = replace(run, group=groups.get(run.adapter, run.group))
            parts.append(_Part(run, earlier, requests, samples))
        _sample(engine, parts, report)
        return [_grade(plan.benchmark, part, how, report) for part in parts]


def choose_recipe(
    benchmark: Benchmark, recipe: Recipe | str | None, examples: Path | None = None
) -> Recipe:
    """Return the recipe by its name or its file; None is the benchmark's own. examples: in place of
    the recipe's examples_file. Raises EvalsError."""
    if recipe is None or recipe == benchmark.recipe.name:
        return benchmark.recipe
    chosen = find_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = chosen.covering(benchmark.name, benchmark.like)
    template = chosen.template(benchmark.name)
    if examples and template.shots and not template.examples:
        template = replace(template, examples_file=str(examples))
    return replace(chosen, templates={**chosen.templates, benchmark.name: template})


def sample_seed(seed: int, benchmark: str, question: str, sample: int) -> int:
    """Return the 63-bit seed of one sample of a run, the same for every adapter."""
    text = "\x1f".join((str(seed), benchmark, question, str(sample)))
    digest = blake2b(text.encode(), digest_size=8, person=b"evals-sample")
    return int.from_bytes(digest.digest(), "big") >> 1


@dataclass(frozen=True)
class _Part:
    """One adapter of an evaluation: its run, without verdicts unless an earlier command finished
    it, its requests, and its samples until now."""

    run: Run
    earlier: Run | None
    requests: Mapping[Key, Request]
    samples: dict[Key, Sample]


def _sample(engine: Engine, parts: Sequence[_Part], progress: Progress) -> None:
    """Sample the missing responses, in the same batches whatever there is already. A prompt that
    does not fit gets an empty one, before the first batch."""

    @cache
    def fits(request: Request) -> bool:  # whether the context has room for it and one token
        with suppress(LoraEvoError):
            getattr(engine, "tokenise", lambda whole: whole)(request)
            return True
        return False

    for part in parts:
        missing = {key: ask for key, ask in part.requests.items() if key not in part.samples}
        lost = [k for k, ask in missing.items() if not fits(replace(ask, seed=0, adapter=None))]
        _add(part, [Sample(*key, "", truncated=True, tokens=0) for key in lost])
    places = [(part, key, ask) for part in parts for key, ask in part.requests.items()]
    progress("ask", sum(key in part.samples for part, key, _ in places))
    places.sort(key=lambda place: len(place[2].prompt))
    size = int(getattr(engine, "max_rows", _BATCH))
    for start in range(0, len(places), size):
        batch = [p for p in places[start : start + size] if p[1] not in p[0].samples]
        rollouts = engine.generate([ask for _, _, ask in batch])
        samples: dict[int, list[Sample]] = {id(part): [] for part in parts}
        for (part, key, ask), rollout in zip(batch, rollouts, strict=True):
            text, truncated = before_stop(rollout.text, ask.stop), rollout.finish_reason == "length"
            samples[id(part)].append(Sample(*key, text, truncated, len(rollout.completion_ids)))
        for part in parts:
            _add(part, samples[id(part)])
        progress("ask", len(batch))


def _add(part: _Part, samples: Sequence[Sample]) -> None:
    """Keep samples of an adapter, in its folder, too."""
    part.samples.update({(sample.id, sample.sample): sample for sample in samples})
    if part.run.folder is not None and samples:
        add_samples(part.run.folder, samples)


def _grade(benchmark: Benchmark, part: _Part, how: Grading, progress: Progress) -> Run:
    """Grade the samples of one adapter, unless its folder holds their verdicts."""
    run, samples = part.run, {key: part.samples[key] for key in part.requests}
    if part.earlier is not None:
        progress("grade", len(samples))
    else:
        name = f"{run.adapter} on {run.benchmark}"
        verdicts = grade_samples(benchmark, samples.values(), run.prompts, how, progress, name)
        run = replace(run, samples=samples, verdicts=verdicts)
    if run.folder is not None and run != part.earlier:
        write_run(run, part.samples)
    return run


def grade_samples(
    benchmark: Benchmark,
    samples: Iterable[Sample],
    prompts: Mapping[str, str],
    how: Grading,
    progress: Progress,
    name: str,
) -> tuple[SampleVerdict, ...]:
    """Return the verdicts on samples in their order. Raises SandboxUnavailable, with the name, if
    more than half have none. prompts: those known, by question; a mark by which a chat template
    opens a thought in them is put before the response."""
    questions = {question.id: question for question in benchmark.questions}
    contexts = prompts if how.template.mode == "chat" else {}
    texts = ((s, completion_text(s.response, contexts.get(s.id))) for s in samples)
    pairs = [(questions[s.id], replace(s, response=text)) for s, text in texts]
    verdicts = []
    for (_, sample), verdict in zip(pairs, benchmark.grade(pairs, how), strict=True):
        fits = sample.tokens != 0 or not sample.truncated
        verdicts.append(verdict if fits else replace(verdict, reason=NO_ROOM))
        progress("grade", 1)
    if 2 * sum(verdict.correct is None for verdict in verdicts) > len(verdicts):
        hint = "mend this, see `code-verifier doctor`, then type the same command again"
        fault = f"{name}: {not_judged(verdicts)}; {hint}"
        raise SandboxUnavailable(f"{fault}: the samples are kept, and graded then")
    return tuple(verdicts)


def _read_finished(folder: Path, settings: Settings, keys: Collection[Key]) -> Run | None:
    """The run of an earlier command that graded all these samples with these versions."""
    with suppress(EvalsError, OSError):
        run = read_run(folder.resolve())
        judged = {(v.id, v.sample) for v in run.verdicts if v.correct is not None}
        if judged == keys and run.settings == settings and run.versions == versions():
            return run
    return None
