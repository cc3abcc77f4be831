"""The doctor: what a run takes on the machine that will train, and whether it works there.

The members of a run are opened as `selfplay train` opens them. They write and learn for two steps,
in which every text is learned from, whatever it is worth. Then follow the largest update that the
configuration allows, on made-up rows, and one that runs out of memory. What was measured is
compared with what `selfplay plan` says. Nothing is kept.
"""

import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path
from statistics import fmean

import torch

from league import Pair
from lora_evo import LoraEvoError
from lora_evo.model import Rollout, choose_device
from selfplay import planning
from selfplay.architecture import read_architecture
from selfplay.config import Config
from selfplay.devices import GIB
from selfplay.errors import ConfigError, SelfplayError, first_line
from selfplay.learning.batch import TrainingSample
from selfplay.learning.statistics import UpdateStats
from selfplay.planning import Plan, plan_run, refuse_what_cannot_fit
from selfplay.population import (
    TOLERANCE,
    Population,
    Run,
    founders,
    memory_mb,
    open_population,
    probe,
    warm_start,
)
from selfplay.prompts.task_kind import BUILT_IN
from selfplay.prompts.template import template_of
from selfplay.rewards import training_samples
from selfplay.rollout import Proposed, open_sandbox
from selfplay.run_report import DRIFT_LIMIT
from selfplay.step import propose, solve, verify
from selfplay.tasks import nano_tasks

STEP_S = 120.0
"""Seconds of a step here, as planned: where one of the configuration takes longer, fewer rows are
written, of the same lengths."""
SECOND_S, LIMIT_S = 240.0, 600.0
"""Seconds after which no second step is begun, and after which the doctor stops."""
LARGE_RATE = 1e-2
"""Learning rate of the update that must move every member."""
WORK = ("propose", "solve", "update")
ROOM = 0.9
"""Share of the device's memory that a run may take after a change that saves time."""
LARGEST = "largest update"

Compared = tuple[float, ...]
"""Measured, and what was planned: nothing, a number, or two ends."""


@dataclass(frozen=True)
class Check:
    """One thing that must work, and what was seen."""

    name: str
    passed: bool
    seen: str


@dataclass(frozen=True)
class Diagnosis:
    """What was found on a machine."""

    what: str
    seconds: Mapping[str, Compared]
    """Of each phase; of the steps' phases the mean."""
    memory: Mapping[str, Compared]
    """Largest bytes."""
    rates: Mapping[str, float]
    """Tokens a second, and shares of what was written."""
    checks: Sequence[Check]
    settings: Sequence[str]
    """To change, as `--set` takes them."""


class OutOfTime(BaseException):
    """The limit has passed; like an interruption, no handler of errors may swallow it."""


class Meter:
    """Times phases, and takes the largest memory of each: the GPU's, or this process's."""

    def __init__(self, device: torch.device, say: Callable[[str], object]) -> None:
        self.gpu, self._say = device.type == "cuda", say
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.peaks: dict[str, float] = defaultdict(float)
        self.begun, self.now = time.perf_counter(), ""

    def begin(self, name: str) -> None:
        """Say what begins, and raise OutOfTime in it once `LIMIT_S` have passed."""
        self._say(name)
        self.now = name
        left = LIMIT_S - (time.perf_counter() - self.begun)
        signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))  # 0 would wait for ever

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is done within. Raises ConfigError when a GPU's memory does not suffice."""
        self.begin(name)
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # elsewhere than on Linux, the largest so far counts
            Path("/proc/self/clear_refs").write_text("5")
        begun = time.perf_counter()
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"out of memory ({name}): {first_line(error)}; ask `selfplay plan`, or try "
                "--set rollout.max_rows=16"
            ) from error
        self.seconds[name].append(time.perf_counter() - begun)
        self.peaks[name] = max(self.peaks[name], self._peak())

    def _peak(self) -> float:
        if self.gpu:  # what others take, vLLM's process among them, is there all the time
            free, total = torch.cuda.mem_get_info()
            passed = torch.cuda.max_memory_reserved() - torch.cuda.memory_reserved()
            return float(total - free + passed)
        with suppress(OSError):
            status = Path("/proc/self/status").read_text()
            return float(status.partition("VmHWM:")[2].split()[0]) * 1024
        return memory_mb() * 2**20


@dataclass
class Trial:
    """What is tried; the configuration of the run has as many rows as there is time for."""

    run: Run
    population: Population
    plan: Plan
    meter: Meter
    written: list[Proposed] = field(default_factory=list)
    learned: int = 0
    """Tokens of the samples so far."""
    stats: list[UpdateStats] = field(default_factory=list)


def examine(config: Config, say: Callable[[str], object]) -> Diagnosis:
    """Try a configuration on this machine for at most `LIMIT_S`; say: receives each phase's name.

    Must be called in the main thread. Raises ConfigError for what cannot fit.
    """
    refuse_what_cannot_fit(config)
    tried, plan = within_time(config)
    meter, checks = Meter(choose_device(config.device), say), list[Check]()
    try:
        with ExitStack() as stack:
            stack.enter_context(_alarm())
            with meter.phase("load"):
                sandbox = stack.enter_context(open_sandbox(config))
                population = stack.enter_context(open_population(config, template_of(config)))
                warm_start(population, config)
            run = Run(tried, Path(), population, sandbox, held_out=(), born={})
            run.start_from([held_out.task for held_out in nano_tasks("nano_code_o")])
            trial = Trial(run, population, plan, meter)
            with meter.phase("weight_sync"):
                population.sync(0)
            for step in (1, 2):
                if step == 1 or time.perf_counter() - meter.begun < SECOND_S:
                    do_step(trial, step)
            looks = {"probabilities": _agreement, "swap": _swap, "sleep and wake": _sleep}
            checks += [_check(name, look, trial) for name, look in looks.items()]
            tokens = population.learner.micro_batch_tokens
            checks.append(_check("memory error", _starvation, trial))
    except OutOfTime:
        what = f"{plan.model} on {plan.machine.name}"
        seen = f"stopped after {LIMIT_S / 60:g} minutes, in {meter.now}"
        memory = {name: (peak,) for name, peak in meter.peaks.items()}
        checks.append(Check("time", False, seen))
        return Diagnosis(what, _compared(meter, plan), memory, {}, checks, [])
    return _diagnosis(config, trial, checks, tokens)


@contextmanager
def _alarm() -> Iterator[None]:
    """Let the timer raise OutOfTime; stop it at the end."""

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def within_time(config: Config) -> tuple[Config, Plan]:
    """Return the configuration with rows for a step of `STEP_S`, all learned from, and its plan."""
    r = replace(config.rollout, train_on="attempts")
    while True:
        config = replace(config, rollout=r, eval=replace(config.eval, same_tasks=0))
        plan, _ = plan_run(config, None)
        least = r.proposals * r.num_generations == 1
        if least or sum(plan.seconds[name] for name in WORK) <= STEP_S:
            return config, plan
        name = "proposals" if r.proposals >= r.num_generations else "num_generations"
        r = replace(r, **{name: getattr(r, name) // 2})


def do_step(trial: Trial, step: int) -> None:
    """Let the members write, and learn from every text: each second one is rewarded."""
    run, solved = trial.run, write(trial, step)
    samples = [
        replace(sample, advantage=(-1.0) ** i)
        for i, sample in enumerate(training_samples(solved, run.config))
    ]
    with trial.meter.phase("update"):
        trial.stats += trial.population.update(samples).values()
    with trial.meter.phase("weight_sync"):
        trial.population.sync(step)
    trial.learned += sum(len(s.prompt_ids) + len(s.completion_ids) for s in samples)
    trial.written += solved


def write(trial: Trial, step: int) -> list[Proposed]:
    """Let teachers propose, and their students attempt that; a known task where it is refused."""
    run, (teachers, students) = trial.run, founders(trial.run.config)
    most = range(max(len(teachers), len(students)))
    pairs = [(teachers[i % len(teachers)], students[i % len(students)]) for i in most]
    with trial.meter.phase("propose"):
        matches = [Pair("", step, *pair, nan) for pair in pairs]
        proposed = verify(run, propose(run, matches, step))
    known = {k: [t.task for t in nano_tasks(f"nano_{k}")] for k in BUILT_IN}
    asked = []
    for p in proposed:
        mine = known.get(p.kind, known["code_o"])
        asked.append(replace(p, task=p.task or mine[p.number % len(mine)]))
    with trial.meter.phase("solve"):
        solved, _ = solve(run, asked, step)
    return [replace(p, attempts=s.attempts) for p, s in zip(proposed, solved, strict=True)]


def fullest(config: Config, plan: Plan, shorter: int = 1) -> list[TrainingSample]:
    """Return made-up rows that fill a micro-batch in each role, in the last group of the noise.

    Before them every member has a short row in each group, so that all gradients are there.
    shorter: divides the lengths.
    """
    learner, samples = config.learner, list[TrainingSample]()

    def add(member: str, role: str, prompt: int, limit: int, task: str) -> None:
        ids = tuple(3 + (7 * len(samples) + i) % 90 for i in range(prompt + limit))
        # As if the sampler hardly ever drew these tokens: then their importance is the largest.
        row = (member, ids[:prompt], ids[prompt:], (-20.0,) * limit, (-1.0) ** len(samples))
        samples.append(TrainingSample(*row, role=role, task=task))

    for role, members, rows in zip(WORK, founders(config), plan.step.parts, strict=False):
        for group in range(max(1, learner.noise_groups - 1)):
            for member in members:
                add(member, role, 1, 1, str(group))
        prompt, limit = rows.longest_prompt // shorter, rows.limit // shorter
        each = replace(rows, longest_prompt=prompt, limit=limit)
        count, prompt, limit = planning.fullest(each, learner.micro_batch_tokens)
        width = min(learner.micro_batch_members or len(members), len(members))
        for n in range(count):
            add(members[n % width], role, prompt, limit, "last")
    return samples


def _check(name: str, look: Callable[[Trial], tuple[bool, str]], trial: Trial) -> Check:
    trial.meter.begin(name)
    try:
        return Check(name, *look(trial))
    except (SelfplayError, LoraEvoError, torch.OutOfMemoryError) as error:
        return Check(name, False, first_line(error))


def _agreement(trial: Trial) -> tuple[bool, str]:
    kl = max(s.mismatch_kl for s in trial.stats)
    most = max(s.logp_difference_max for s in trial.stats)
    return kl <= DRIFT_LIMIT, (
        f"sampler and learner differ by a KL divergence of {kl:.1g} nats a token at most (limit "
        f"{DRIFT_LIMIT:g}), by {most:.2g} nats at one token"
    )


def _swap(trial: Trial) -> tuple[bool, str]:
    """Move every member far, and see that the engine has the new weights and not the old."""
    learner, engine = trial.population.learner, trial.population.engine
    earlier, before = probe(learner, engine)
    noise = max(_apart(earlier, before))
    rate = trial.run.config.learner.learning_rate
    with trial.meter.phase(LARGEST):
        samples = fullest(trial.run.config, trial.plan)
        trial.population.update(samples, LARGE_RATE / rate if rate else 1.0)
    trial.population.sync(3)
    sampled, after = probe(learner, engine)
    old, new = _apart(sampled, before)[1:], _apart(sampled, after)[1:]  # the base comes first
    return all(b <= max(a / 2, 2 * noise + 1e-3) for a, b in zip(old, new, strict=True)), (
        f"after an update that moved every member's log-probability of a token by {min(old):.2g} "
        f"nats or more, the engine is within {max(new):.1g} of the new one"
    )


def _apart(sampled: Sequence[Rollout], tables: Sequence[Sequence[float]]) -> list[float]:
    return [
        abs(rollout.logprobs[0] - table[rollout.completion_ids[0]])
        for rollout, table in zip(sampled, tables, strict=True)
    ]


def _sleep(trial: Trial) -> tuple[bool, str]:
    learner, engine = trial.population.learner, trial.population.engine
    before, _ = probe(learner, engine)
    engine.release()
    begun = time.perf_counter()
    engine.restore()
    after, _ = probe(learner, engine)
    apart = max(abs(a.logprobs[0] - b.logprobs[0]) for a, b in zip(before, after, strict=True))
    same = [r.completion_ids for r in before] == [r.completion_ids for r in after]
    return same and apart <= TOLERANCE[trial.run.config.dtype], (
        f"awake again in {time.perf_counter() - begun:.1f} s, every member's token "
        f"{'the same' if same else 'another'}, log-probabilities within {apart:.1g}"
    )


def _starvation(trial: Trial) -> tuple[bool, str]:
    """Let an update run out of memory."""
    learner = trial.population.learner
    whole, longest = learner.micro_batch_tokens, learner.forward_pass.recomputed_from
    try:
        with too_little_memory(trial.meter.gpu), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            samples = fullest(trial.run.config, trial.plan, shorter=8)
            stats = trial.population.update(samples)
    finally:
        learner.micro_batch_tokens, learner.forward_pass.recomputed_from = whole, longest
    trial.population.sync(4)
    found = [text for text in (str(w.message) for w in said) if text.startswith("out of memory")]
    return bool(found) and all(s.stepped for s in stats.values()), (
        found[-1] if found else "an update did not run out of memory"
    )


@contextmanager
def too_little_memory(gpu: bool) -> Iterator[None]:
    """Leave less memory than the last phase took; on a CPU, fail once as if there were none."""
    if gpu:
        taken = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
        torch.cuda.empty_cache()
        limit = torch.cuda.memory_reserved() + 0.6 * taken
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info()[1])
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    fails = [True]

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if fails:
            fails.clear()
            raise torch.OutOfMemoryError("on purpose")
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield


def _diagnosis(config: Config, trial: Trial, checks: list[Check], tokens: int) -> Diagnosis:
    """Say what was found; tokens: of a micro-batch that fitted."""
    r, meter = config.rollout, trial.meter
    attempts = [a for p in trial.written for a in p.attempts]
    texts = [(p.rollout, r.max_proposal_length) for p in trial.written]
    texts += [(a.rollout, r.max_completion_length) for a in attempts]
    seconds = {name: fmean(values) for name, values in meter.seconds.items()}
    steps = len(meter.seconds["update"])
    writing = steps * (seconds["propose"] + seconds["solve"])
    rates = {
        "tokens written a second": sum(len(x.completion_ids) for x, _ in texts) / writing,
        "tokens learned a second": trial.learned / seconds["update"] / steps,
        "fill of completions": fmean(len(x.completion_ids) / limit for x, limit in texts),
        "completions at their limit": fmean(x.finish_reason == "length" for x, _ in texts),
        "valid proposals": fmean(p.task is not None for p in trial.written),
        "well-formed attempts": fmean(a.answer is not None for a in attempts),
    }
    fill = (rates["fill of completions"],) * 2
    (plan, _), (whole, _) = (plan_run(c, None, fill=fill) for c in (trial.run.config, config))
    compared = _compared(meter, plan)
    compared["work of a whole step"] = (
        sum(seconds[name] * whole.seconds[name] / plan.seconds[name] for name in WORK),
        *(sum(end[name] for name in WORK) for end in (whole.least_seconds, whole.seconds)),
    )
    sampling = max(meter.peaks["propose"], meter.peaks["solve"])
    learning = max(meter.peaks["update"], meter.peaks[LARGEST])
    settings = faster(config, whole, learning / plan.learning)
    if tokens < config.learner.micro_batch_tokens:
        settings.insert(0, f"learner.micro_batch_tokens={tokens}")
    return Diagnosis(
        what=(
            f"{whole.model} on {whole.machine.name}: {config.engine}, {config.dtype}, "
            f"{whole.step.members} members; {len(trial.written) // steps} proposals and "
            f"{len(attempts) // steps} attempts a step, steps done: {steps}"
        ),
        seconds=compared,
        memory={"sampling": (sampling, plan.sampling), "learning": (learning, plan.learning)},
        rates=rates,
        checks=checks,
        settings=settings,
    )


def _compared(meter: Meter, plan: Plan) -> dict[str, Compared]:
    """Return the mean seconds of each phase that was measured, with both ends of its plan."""
    ends = (plan.least_seconds, plan.seconds)
    return {
        name: (fmean(found), *(end[name] for end in ends if name in end))
        for name, found in meter.seconds.items()
    }


def faster(config: Config, plan: Plan, ratio: float) -> list[str]:
    """Return what saves time within `ROOM`; ratio: of memory measured to memory planned."""
    memory = ROOM * plan.machine.memory / max(1.0, ratio)
    machine = replace(plan.machine, memory=memory)
    return list(planning.faster(config, read_architecture(config.base), machine))


def to_text(found: Diagnosis) -> str:
    """Return the tables of a diagnosis, and what to do."""
    lines = [found.what]
    for title, table, unit in (("seconds", found.seconds, 1), ("memory, GiB", found.memory, GIB)):
        lines += ["", f"{title:28}{'measured':>12}     planned"]
        for name, (measured, *planned) in table.items():
            ends = " to ".join(f"{end / unit:.2f}" for end in planned)
            lines.append(f"  {name:26}{measured / unit:12.2f}     {ends}".rstrip())
    lines += ["", *(f"{name:28}{value:12.4g}" for name, value in found.rates.items()), ""]
    lines += [f"{'ok    ' if c.passed else 'FAILED'}  {c.name}: {c.seen}" for c in found.checks]
    if not found.rates:
        return "\n".join(
            [*lines, "", "take a smaller preset or base, or fewer rows: `selfplay plan`"]
        )
    lines += ["", f"change: {' '.join(f'--set {text}' for text in found.settings) or 'nothing'}"]
    if found.rates["completions at their limit"] > 0.5:
        lines.append("most completions are cut by their limit: longer ones, or another template")
    if not found.rates["valid proposals"] or not found.rates["well-formed attempts"]:
        lines.append("this base has nothing to learn from yet: give it a start by `selfplay sft`")
    return "\n".join(lines)
