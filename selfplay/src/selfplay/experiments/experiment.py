"""Experiments: a plan of arms, controls and seeds, and the processes that make its runs.

Whatever ends an experiment, the same call resumes it: finished runs are skipped, others resume from
their newest checkpoint, and one that cannot is named while the rest continues. Each run is a
process, `python -m selfplay.experiments.experiment HOME FOLDER`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from lora_evo import write_text
from selfplay.config import Config, config_text, read_config, refuse_hasty_evolution, set_by_mode
from selfplay.errors import ConfigError, RunDirectoryError
from selfplay.experiments.measures import measures_with
from selfplay.files.layout import CONFIG, LOCK, METRICS, lock, open_config, size
from selfplay.settings import (
    Count,
    assignment,
    one_of,
    put,
    read_preset,
    read_settings,
    read_yaml,
    shipped,
)
from selfplay.terminal import program, quote

PLAN = "plan.yaml"
POLL_S, GRACE_S = 0.5, 20.0
"""Seconds between two looks at the runs, and those that a run has to stop by itself."""
NICENESS = 10
_NAME = re.compile(r"\w[\w+. -]*")
_SIZES = ("teachers", "students")
"""What an arm with a mode of its own sets with it."""


@dataclass(frozen=True)
class Claim:
    """A prediction: where the mean of some arms, minus that of others, lies on some measures."""

    question: str
    measures: tuple[str, ...]
    """Names from `findings.MEASURES`, or of the plan's own."""
    plus: tuple[str, ...]
    """Arms whose mean is taken."""
    minus: tuple[str, ...] = ()
    """Arms whose mean is subtracted."""
    net: bool = False
    """Take each arm minus its first control."""
    predicted: Literal["above", "below"] = "above"
    threshold: float = 0.0


@dataclass(frozen=True)
class Plan:
    """An experiment: every arm, and every control of every arm, with every seed."""

    name: str
    arms: Mapping[str, Mapping[str, Any]]
    """What sets each arm apart, by dotted key such as `learner.learning_rate`."""
    seeds: tuple[Count, ...]
    question: str = ""
    preset: str | None = "nano"
    """Settings to start from."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Nested settings in place of a preset."""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Settings of all arms and controls, by dotted key."""
    controls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is changed in every arm to see it without an effect."""
    control_seeds: tuple[Count, ...] = ()
    """Seeds of the controls; empty: those of the arms."""
    arm_seeds: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    """Seeds of the arms that have others than `seeds`."""
    contrasts: tuple[tuple[str, str], ...] = ()
    """Pairs of arms, first minus second; empty: every arm minus the first one."""
    findings: tuple[Claim, ...] = ()
    """Predictions that a comparison gives a verdict on."""
    measures: str | None = None
    """Measures of the plan's own, as `module:object`: a mapping from names to (unit, function)."""

    def __post_init__(self) -> None:
        for name, value in (("name", self.name), ("arms", self.arms), ("seeds", self.seeds)):
            if not value:
                raise ConfigError(f"{name} is empty; expected name, arms and seeds")
        by_key = {"seeds": self.seeds, "control_seeds": self.control_seeds}
        by_key |= {f"arm_seeds.{arm}": seeds for arm, seeds in self.arm_seeds.items()}
        for key, seeds in by_key.items():
            if len(set(seeds)) < len(seeds):
                raise ConfigError(f"{key} is {list(seeds)}; expected different whole numbers")
        named: dict[str, Iterable[str]] = {"arm_seeds": self.arm_seeds}
        named |= {f"contrasts[{i}]": pair for i, pair in enumerate(self.contrasts)}
        named |= {f"findings[{i}]": (*c.plus, *c.minus) for i, c in enumerate(self.findings)}
        for key, arms in named.items():
            _require(key, arms, self.arms)
        known = measures_with(self.measures)
        for i, claim in enumerate(self.findings):
            _require(f"findings[{i}].measures", claim.measures, known)

    def check_folders(self) -> None:
        """Raise ConfigError for names of arms and controls that are no different directories."""
        names = [name.replace(" ", "-") for name in (*self.arms, *self.controls)]
        for name in names:
            if not _NAME.fullmatch(name) or name.startswith("seed-") or names.count(name) > 1:
                raise ConfigError(
                    f"arms: {name!r} cannot name a directory of its own; expected different names "
                    "of letters, digits, and + . _ - or blanks"
                )

    def seeds_of(self, arm: str, control: str | None) -> tuple[Count, ...]:
        """Return the seeds of an arm, or of an arm with a control."""
        return self.control_seeds if control else self.arm_seeds.get(arm, self.seeds)

    def run_config(self, arm: str, control: str | None, seed: int) -> Config:
        """Return the settings of one run; raises ConfigError that names arm and control."""
        copied = json.loads(json.dumps(self.config))  # `override` writes into it
        data = copied if self.preset is None else read_preset(self.preset)
        changes = [self.set, self.arms[arm], self.controls[control] if control else {}]
        try:
            for settings in changes:
                for key, value in settings.items():
                    put(data, key, value)
            return read_config(data | {"seed": seed})
        except ConfigError as error:
            where = f"arm {arm!r}" + (f" with control {control!r}" if control else "")
            raise ConfigError(f"{where}: {str(error).removeprefix('--set ')}") from error


def _require(key: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{key}: {name!r}; {one_of(name, list(known))}")


@dataclass(frozen=True)
class PlannedRun:
    """One run: an arm, perhaps with a control, and a seed."""

    arm: str
    control: str | None
    seed: int
    config: Config

    @property
    def folder(self) -> Path:
        """The run directory below that of the experiment: ARM/seed-N or ARM/CONTROL/seed-N."""
        names = [self.arm, *([self.control] if self.control else []), f"seed-{self.seed}"]
        return Path(*(name.replace(" ", "-") for name in names))

    @property
    def title(self) -> str:
        """The run's name for people."""
        return f"{self.arm}{f', {self.control}' if self.control else ''}, seed {self.seed}"

    def log(self, home: Path) -> Path:
        """Return the file of what the process of the run prints."""
        return home / self.folder.with_name(f"{self.folder.name}.log")

    def is_finished(self, home: Path) -> bool:
        """Return whether the run has done its last step and kept what it trained."""
        return (home / self.folder / "checkpoints" / f"step-{self.config.steps}").is_dir()


def plan_names() -> list[str]:
    """Return the names of the plans that come with the package."""
    return list(shipped("plans"))


def open_plan(place: str, assignments: Sequence[str] = ()) -> Plan:
    """Read a plan from a file or by the name of a shipped one; `a.b=c` go on top for all arms.

    `seeds=[...]` are those of every arm and control. Raises ConfigError, also for a key that all
    arms set themselves.
    """
    if place in plan_names():
        data = yaml.safe_load(shipped("plans")[place])
    elif Path(place).is_file():
        data = read_yaml(Path(place))
    else:
        expected = one_of(place, plan_names())
        raise ConfigError(f"{place} is neither a file nor a shipped plan; {expected}")
    plan = read_plan(data, place)
    for key, value in map(assignment, assignments):
        if key == "seeds":
            data |= {"seeds": value, "arm_seeds": {}, "control_seeds": []}
            continue
        arms = plan.arms.values()
        if all(key in changes or (key in _SIZES and "mode" in changes) for changes in arms):
            raise ConfigError(f"--set {key}: all arms of {place} set it; change it in a copy")
        data["set"] = {**(data.get("set") or {}), key: value}
    return read_plan(data, place) if assignments else plan


def read_plan(data: object, place: str) -> Plan:
    """Build a plan from plain values and check the settings of every run in it.

    Raises ConfigError that names the place, what was found and what was expected.
    """
    try:
        plan = read_settings(data, Plan)
        plan.check_folders()
        for arm in plan.arms:
            for control in (None, *plan.controls):
                plan.run_config(arm, control, plan.seeds[0])
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    arms = list(plan.arms)
    return replace(
        plan,
        question=plan.question.strip(),
        control_seeds=plan.control_seeds or plan.seeds,
        contrasts=plan.contrasts or tuple((arm, arms[0]) for arm in arms[1:]),
    )


def resolved(plan: Plan) -> Plan:
    """Return the plan with all settings spelt out: presets may change between versions."""
    bare = Plan(
        plan.name, {"": {}}, plan.seeds, preset=plan.preset, config=plan.config, set=plan.set
    )
    shared = bare.run_config("", None, 0)
    config = yaml.safe_load(config_text(shared))
    del config["seed"]
    arms = {}
    for arm, settings in plan.arms.items():
        config_of_arm = plan.run_config(arm, None, 0)
        by_mode = set_by_mode(config_of_arm) if config_of_arm.mode != shared.mode else {}
        arms[arm] = dict(settings) | by_mode
    return replace(plan, preset=None, config=config, set={}, arms=arms)


def planned_runs(plan: Plan) -> list[PlannedRun]:
    """Return all runs, one seed of all arms and controls first, so that early results compare."""
    of_arms = [seed for seeds in plan.arm_seeds.values() for seed in seeds]
    every = list(dict.fromkeys([*plan.seeds, *plan.control_seeds, *of_arms]))
    return [
        PlannedRun(arm, control, seed, plan.run_config(arm, control, seed))
        for seed in every
        for control in (None, *plan.controls)
        for arm in plan.arms
        if seed in plan.seeds_of(arm, control)
    ]


def open_home(plan: Plan, home: Path) -> Plan:
    """Return the plan with all settings spelt out and keep it in the directory as plan.yaml.

    Raises RunDirectoryError where the directory holds another plan or other files.
    """
    plan, path = resolved(plan), home / PLAN
    if path.is_file():
        kept = open_plan(str(path))
        differ = [f.name for f in fields(Plan) if getattr(plan, f.name) != getattr(kept, f.name)]
        if differ:
            raise RunDirectoryError(
                f"{home} holds another plan (other {', '.join(differ)}); choose another --out, or "
                f"resume it with `{program()} experiment {quote(path)} --out {quote(home)}`"
            )
        return plan
    if home.exists() and not home.is_dir():
        raise RunDirectoryError(f"{home} is a file; choose another --out, a new directory")
    if home.exists() and any(p.name != LOCK for p in home.iterdir()):
        raise RunDirectoryError(f"{home} is not empty and holds no {PLAN}; choose another --out")
    home.mkdir(parents=True, exist_ok=True)
    plain = json.loads(json.dumps(asdict(plan)))
    write_text(path, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
    return plan


def run_experiment(plan: Plan, home: Path, *, workers: int = 2) -> list[str]:
    """Do all runs of the plan that are not done; return what failed, a line each.

    Raises RunDirectoryError for a directory of another plan or one that is being worked in. On
    KeyboardInterrupt the runs are stopped, and their checkpoints stay.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    for run in planned_runs(plan):
        refuse_hasty_evolution(run.config)
    plan = open_home(plan, home)
    runs = planned_runs(plan)
    waiting = deque(run for run in runs if not run.is_finished(home))
    going: dict[PlannedRun, subprocess.Popen[bytes]] = {}
    failed: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with (
        closing(lock(home)),
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
    ):
        bar = progress.add_task("steps", total=sum(run.config.steps for run in runs))
        try:
            while waiting or going:
                while waiting and len(going) < workers:
                    run = waiting.popleft()
                    going[run] = _start(run, home)
                time.sleep(POLL_S)
                for run, process in list(going.items()):
                    if process.poll() is not None:
                        del going[run]
                        why = _end(run, process, home)
                        failed += why
                        console.print(f"{'failed' if why else 'done'}: {run.title}")
                progress.update(bar, completed=sum(_steps(home / run.folder) for run in runs))
        finally:  # closing its pipe stops a run
            for process in going.values():
                if process.stdin is not None:
                    process.stdin.close()
            for run, process in going.items():
                _end(run, process, home)
    return failed


def _steps(directory: Path) -> int:
    with suppress(OSError):
        return (directory / METRICS).read_bytes().count(b"\n")
    return 0


def _start(run: PlannedRun, home: Path) -> subprocess.Popen[bytes]:
    log = run.log(home)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        # Its own session: Ctrl-C at the terminal reaches this process alone.
        return subprocess.Popen(
            [sys.executable, "-m", "selfplay.experiments.experiment", str(home), str(run.folder)],
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )


def _end(run: PlannedRun, process: subprocess.Popen[bytes], home: Path) -> list[str]:
    """Wait for the end of a run; return what failed, if anything did."""
    process.communicate()  # closes its pipe
    code, log = process.returncode, run.log(home)
    if code == 0 and run.is_finished(home):
        log.unlink()
        return []
    said = log.read_text(errors="replace").strip().splitlines()
    ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return [f"{run.title}: {said[-1] if said else ended} ({log})"]


def prepare(run: PlannedRun, home: Path) -> bool:
    """Return whether the run has begun and can be resumed; clear away one without any step.

    Raises RunDirectoryError for a run of other settings, or one that lost its checkpoints.
    """
    directory = home / run.folder
    if not directory.is_dir() or not any(directory.iterdir()):
        return False
    if any((directory / "checkpoints").glob("step-*[0-9]")):
        if open_config(directory) != run.config:
            raise RunDirectoryError(f"{directory / CONFIG} has other settings than the plan")
        return True
    if size(directory / METRICS):
        raise RunDirectoryError(
            f"{directory} has steps but no checkpoint; move it away to run it again"
        )
    shutil.rmtree(directory)  # killed before its first checkpoint
    return False


def work(home: Path, folder: str) -> None:
    """Make or resume the planned run of that folder in this process.

    Standard input is a pipe that the parent holds open and never writes to: when the parent ends,
    however it ends, the pipe closes and the run stops, with its checkpoints kept.
    """
    from selfplay.report.progress import Progress as StepProgress
    from selfplay.training import resume, train

    threading.Thread(target=_watch_parent, daemon=True).start()
    os.nice(NICENESS)
    plan = open_plan(str(home / PLAN))
    run = next(r for r in planned_runs(plan) if str(r.folder) == folder)
    directory = home / run.folder
    _wait_until_free(directory)
    if prepare(run, home):
        resume(directory, progress=StepProgress(quiet=True))
    else:
        train(run.config, directory, progress=StepProgress(quiet=True))


def _watch_parent() -> None:
    # Not sys.stdin: its lock would be held while the interpreter ends.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_S)
    os._exit(1)


def _wait_until_free(directory: Path) -> None:
    """Wait for a process of an earlier parent, which takes a moment to notice that it is alone."""
    until = time.monotonic() + GRACE_S
    while (directory / LOCK).exists():
        try:
            lock(directory).close()
            return
        except RunDirectoryError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    from selfplay.errors import one_line_errors

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with one_line_errors():
        work(Path(sys.argv[1]), sys.argv[2])
