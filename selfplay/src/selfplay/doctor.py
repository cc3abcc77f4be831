"""The doctor: checks the machine that will train, and measures two steps there.

If the environment passes, two steps at the sizes of the configuration are trained as by `selfplay
train`, with an evolution between them, in a folder that is removed again. Memory is measured by
phase, next to the estimate of `selfplay plan`.
"""

import math
import shutil
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch

from code_verifier import SandboxUnavailable
from lora_evo import LoraEvoError
from lora_evo.model import choose_device, require_vllm
from selfplay.config import Config
from selfplay.errors import ConfigError, SelfplayError, first_line
from selfplay.files.layout import METRICS, TASKS
from selfplay.files.record import number_at
from selfplay.files.rows import MemberRow, StepRow, TaskRow, read_rows
from selfplay.machine import cost
from selfplay.machine.devices import GIB, memory_mb, refuse_float32, set_allocator
from selfplay.machine.plan import SMALLER, MemoryPlan, plan_run, verdict
from selfplay.reports.findings import not_judged
from selfplay.reports.progress import Progress
from selfplay.sampling.judge import open_sandbox
from selfplay.step import train_step
from selfplay.training import new_run

STEPS = 2
DRIFT_LIMITS = {"float32": 1e-3, "bfloat16": 5e-3, "float16": 5e-3}
"""KL divergence (k3, nats a token) of sampler and learner above which weights did not arrive, by
dtype: three times that of healthy runs (docs/gpu.md). See `drift`."""


@dataclass(frozen=True)
class Check:
    """One check: its result, what was seen, and what to type if it failed."""

    name: str
    passed: bool
    seen: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The results of the doctor on a machine."""

    title: str
    checks: Sequence[Check]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Mean seconds of each phase."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """Peak bytes of each phase: of the GPU, else of this process."""
    planned: Mapping[str, float] = field(default_factory=dict)
    """Bytes that `selfplay plan` estimates, while sampling and while learning."""
    hours: Mapping[str, float] = field(default_factory=dict)
    """Of each phase in a whole run at this speed, without evaluations."""


class Meter(Progress):
    """Measures time and peak memory of each phase of a run; say: called with their names."""

    def __init__(self, device: torch.device, say: Callable[[str], object]) -> None:
        super().__init__(quiet=True)
        self._gpu, self._say = device.type == "cuda", say
        self.times: dict[str, list[float]] = defaultdict(list)
        self.memory: dict[str, float] = defaultdict(float)
        self.now = ""

    def phase(self, phase: str) -> None:
        """End the current phase and begin this one."""
        self.end()
        super().phase(phase)
        self._say(phase)
        if self._gpu:
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # without Linux's file, the peak of the process so far counts
            Path("/proc/self/clear_refs").write_text("5")
        self.now, self._since = phase, time.perf_counter()

    def end(self) -> None:
        """End the current phase, if any."""
        if self.now:
            self.times[self.now].append(time.perf_counter() - self._since)
            self.memory[self.now] = max(self.memory[self.now], self._peak())
        self.now = ""

    def _peak(self) -> float:
        if self._gpu:  # assumes that other processes, such as vLLM's, use the same all the time
            free, total = torch.cuda.mem_get_info()
            freed = torch.cuda.max_memory_reserved() - torch.cuda.memory_reserved()
            return float(total - free + freed)
        with suppress(OSError):
            status = Path("/proc/self/status").read_text()
            return float(status.partition("VmHWM:")[2].split()[0]) * 1024
        return memory_mb() * 2**20


def examine(config: Config, say: Callable[[str], object]) -> Diagnosis:
    """Check this machine and, if all passes, train two steps of a configuration.

    say: called with each phase's name. Raises ConfigError for an unusable configuration.
    """
    title = f"{config.base}: {config.engine}, {config.dtype}"
    checks, plan = list(machine(config)), None
    if all(check.passed for check in checks):
        set_allocator(config)
        with suppress(ConfigError, LoraEvoError):  # an unknown shape of the base, or a missing GPU
            plan = plan_run(config, None)
            checks += room(plan)
            title += f", {plan.step.members} members on {plan.machine.name}"
    if not all(check.passed for check in checks):
        return Diagnosis(title, checks)
    meter = Meter(choose_device(config.device), say)
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
        checks += train_two_steps(config, meter)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        if text.startswith("out of memory"):
            checks.append(Check("memory of an update", False, text, SMALLER))
    seconds = {name: fmean(times) for name, times in meter.times.items()}
    return Diagnosis(
        title,
        checks,
        seconds,
        memory=dict(meter.memory),
        planned={"sampling": plan.sampling, "learning": plan.learning} if plan else {},
        hours=cost.measured_hours(config, seconds),
    )


def machine(config: Config) -> Iterator[Check]:
    """Yield the checks of the sandbox, the device and vLLM, which load nothing."""
    try:
        with open_sandbox(config) as sandbox:
            sandbox.self_test()
        yield Check("sandbox", True, "judges two test programs as expected")
    except SandboxUnavailable as error:
        yield _refused("sandbox", error)
    has_gpu = torch.cuda.is_available()
    text = f"torch {torch.__version__} (CUDA {torch.version.cuda or 'none'}) uses "
    text += torch.cuda.get_device_name() if has_gpu else "the CPU"
    remedy = "install the NVIDIA driver and the torch that fits it, or --set device=cpu"
    yield Check("device", has_gpu or not config.device.startswith("cuda"), text, remedy)
    if config.engine == "vllm":
        try:
            refuse_float32(config, config.device != "cpu" and has_gpu)
            yield Check("vLLM", True, f"version {require_vllm()}")
        except (ConfigError, LoraEvoError) as error:
            yield _refused("vLLM", error)


def _refused(name: str, error: Exception) -> Check:
    text, _, remedy = str(error).partition("; type")
    return Check(name, False, text, remedy.removeprefix(":").strip())


def room(plan: MemoryPlan) -> Iterator[Check]:
    """Yield the checks of memory and disk space."""
    yield Check("memory", plan.peak <= plan.machine.memory, verdict(plan))
    free, needed = shutil.disk_usage(Path.cwd()).free, plan.checkpoints
    text = f"{free / GIB:.1f} GiB are free here, {needed / GIB:.2f} are needed for checkpoints"
    yield Check("disk", free > needed, text, "--set keep_checkpoints=1, or another --out")


def train_two_steps(config: Config, meter: Meter) -> list[Check]:
    """Train two steps under the meter, and return the checks of their results."""
    evolution = replace(config.evolution, evolve_every=min(1, config.evolution.evolve_every))
    unmeasured = replace(config.eval, eval_every=0)
    config = replace(config, steps=STEPS, evolution=evolution, eval=unmeasured, report_to=())
    with TemporaryDirectory(prefix=".doctor-", dir=Path.cwd()) as folder:
        home = Path(folder) / "run"
        try:
            meter.phase("load")
            with new_run(config, home, progress=meter) as run:
                for _ in range(STEPS):
                    train_step(run)
                    meter.end()
        except ConfigError:
            raise
        except torch.OutOfMemoryError as error:
            return [Check(meter.now, False, first_line(error), SMALLER)]
        except (SelfplayError, LoraEvoError, SandboxUnavailable) as error:
            return [Check(meter.now, False, first_line(error))]
        rows = list(read_rows(home / METRICS, StepRow))
        return [_learned(rows, list(read_rows(home / TASKS, TaskRow)), config), _gap(rows, config)]


def _learned(rows: Sequence[StepRow], tasks: Sequence[TaskRow], config: Config) -> Check:
    """Check that an update moved a member: otherwise no update was measured."""
    members = [member for row in rows for member in row.members.values()]
    valid, moved = sum(t.status == "ok" for t in tasks), sum(m.stepped is True for m in members)
    text = f"{valid} tasks of {config.rollout.tasks} were attempted, "
    text = text if config.rollout.tasks else f"{valid} of {len(tasks)} proposals were valid, "
    text += f"{moved} of {len(members)} updates moved a member"
    text += not_judged(n for row in rows for n in row.infra_errors.values())
    remedy = f"selfplay sft --base {config.base} --data FILE --out START; --set warm_start=START"
    return Check("learning", moved > 0, text, remedy)


def _gap(rows: Sequence[StepRow], config: Config) -> Check:
    """Check that sampler and learner give the same tokens the same probabilities."""
    members = [member for row in rows for member in row.members.values()]
    kl = max(map(drift, members), default=0.0)
    most = max((number_at(m, "logp_difference_max") or 0.0 for m in members), default=0.0)
    text = f"sampler and learner differ by {most:.2g} nats at one token, without it by a KL "
    limit = DRIFT_LIMITS[config.dtype]
    text += f"divergence of {kl:.1g} nats a token at most (limit {limit:g} in {config.dtype})"
    remedy = "--set engine=hf" if config.engine == "vllm" else "--set dtype=float32"
    return Check("probabilities", kl <= limit, text, remedy)


def drift(member: MemberRow | dict[str, Any]) -> float:
    """Return a member's `mismatch_kl` without the token that differs most: in 16 bits, rounding
    alone can move one token by nats, on some processors more than on others.

    Takes away the least that this token can have added: k3 where the learner is less sure of it.
    """
    names = ("mismatch_kl", "logp_difference_max", "tokens")
    kl, most, tokens = (number_at(member, name) or 0.0 for name in names)
    return max(0.0, kl - (math.expm1(-most) + most) / tokens) if tokens else kl


def to_text(diagnosis: Diagnosis) -> str:
    """Return the checks and measurements as text."""
    lines = [diagnosis.title]
    for check in diagnosis.checks:
        lines.append(f"{'ok    ' if check.passed else 'FAILED'}  {check.name}: {check.seen}")
        if check.remedy and not check.passed:
            lines.append(f"        try: {check.remedy}")
    if diagnosis.seconds:
        lines += ["", f"{'phase':20}{'seconds':>10}{'GiB':>10}"]
    for name, seconds in diagnosis.seconds.items():
        lines.append(f"{name:20}{seconds:10.2f}{diagnosis.memory[name] / GIB:10.2f}")
    lines += [f"planned while {n}: {b / GIB:.2f} GiB" for n, b in diagnosis.planned.items()]
    if diagnosis.hours:
        lines += ["", cost.to_text(diagnosis.hours, "a whole run at this speed, evaluations apart")]
    return "\n".join(lines)
