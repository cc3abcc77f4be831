"""Experiments: a plan of arms and seeds, and its runs, each made by `selfplay train`.

The same call resumes an interrupted experiment: finished runs are skipped, others continue from
their newest checkpoint. A run that fails is reported after the others are done. A control is an
arm.
"""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from code_verifier import cores
from lora_evo.files import write_text
from selfplay import settings
from selfplay.config import Config, config_text, read_config
from selfplay.errors import ConfigError, RunDirectoryError
from selfplay.files.layout import CONFIG, LOCK, METRICS, lock
from selfplay.settings import one_of
from selfplay.terminal import program, quote

PLAN = "plan.yaml"
POLL_S = 0.5
"""Seconds between two checks of the runs."""
PATIENCE_S = 20.0
"""Seconds to wait for a process to stop."""
_SELFPLAY = (
    "import ctypes, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "ctypes.CDLL(None).prctl(1, signal.SIGINT); from selfplay.cli import main; main()"
)
"""Program of a run's process, which is interrupted when its parent dies (PR_SET_PDEATHSIG)."""


@dataclass(frozen=True)
class Plan:
    """An experiment: every arm with every seed."""

    name: str
    arms: Mapping[str, Mapping[str, Any]]
    """Settings of each arm, by dotted key such as `learner.learning_rate`."""
    seeds: tuple[settings.Count, ...]
    question: str = ""
    preset: str | None = "nano"
    """Preset to start from."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Nested settings that override the preset."""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Settings of all arms, by dotted key."""
    contrasts: tuple[tuple[str, str], ...] = ()
    """Pairs of arms, first minus second; empty: every arm minus the first one."""
    curves: Mapping[str, str] = field(default_factory=dict)
    """Shares over the steps that a comparison shows: `module:function` by name. The function gets a
    `RunRecord` and returns shares from 0 to 1 by step."""

    def __post_init__(self) -> None:
        if not (self.name and self.arms and self.seeds):
            raise ConfigError("a plan has a name, arms and seeds; one of them is empty")
        if len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"seeds is {list(self.seeds)}; expected different whole numbers")
        if any("seed" in changes for changes in (self.set, *self.arms.values())):
            raise ConfigError("seed is of one run; expected `seeds` of the plan: --set 'seeds=[1]'")
        folders = list(map(folder_of, self.arms))
        for arm in self.arms:
            if not re.fullmatch(r"\w[\w+. -]*", arm) or folders.count(folder_of(arm)) > 1:
                raise ConfigError(
                    f"arms: {arm!r} cannot name a directory of its own; expected different names "
                    "of letters, digits, and + . _ - or blanks"
                )
        for arm in (arm for pair in self.contrasts for arm in pair if arm not in self.arms):
            raise ConfigError(f"contrasts: {arm!r}; {one_of(arm, list(self.arms))}")

    @property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """The arms that are compared, first minus second."""
        first, *others = self.arms
        return self.contrasts or [(arm, first) for arm in others]

    def base(self) -> dict[str, Any]:
        """Return the nested settings that all arms start from."""
        preset = {} if self.preset is None else settings.read_preset(self.preset)
        return settings.merge_settings(preset, self.config)

    def run_config(self, arm: str, seed: int) -> Config:
        """Return the settings of one run, with the seed for `{seed}` in texts of `set` and arms.

        Raises ConfigError that names the arm.
        """
        data = json.loads(json.dumps(self.base()))  # `put` writes into it
        try:
            for key, value in {**self.set, **self.arms[arm], "seed": seed}.items():
                text = value.replace("{seed}", str(seed)) if isinstance(value, str) else value
                settings.put(data, key, text)
            return read_config(data)
        except ConfigError as error:
            raise ConfigError(f"arm {arm!r}: {str(error).removeprefix('--set ')}") from error

    def runs(self, home: Path) -> list["PlannedRun"]:
        """Return all runs, ordered by seed, so that arms can be compared early."""
        runs = []
        for seed, arm in product(self.seeds, self.arms):
            directory = home / folder_of(arm) / f"seed-{seed}"
            runs.append(PlannedRun(arm, seed, self.run_config(arm, seed), directory))
        return runs


class PlannedRun(NamedTuple):
    """An arm with a seed, and the run's directory."""

    arm: str
    seed: int
    config: Config
    directory: Path

    @property
    def is_finished(self) -> bool:
        """Whether the run has a checkpoint of its last step."""
        return (self.directory / "checkpoints" / f"step-{self.config.steps}").is_dir()


def folder_of(arm: str) -> str:
    """Return the name of an arm's folder."""
    return arm.replace(" ", "-")


def open_plan(place: str, assignments: Sequence[str] = ()) -> Plan:
    """Read a plan from a file or by the name of a shipped one, and check the settings of its arms.

    assignments: `a.b=c` for all arms, and `seeds=[...]`. Raises ConfigError, also for an assignment
    that every arm overrides.
    """
    texts = settings.shipped("plans")
    if place not in texts and not Path(place).is_file():
        raise ConfigError(
            f"{place} is neither a file nor a shipped plan; {one_of(place, list(texts))}"
        )
    data = yaml.safe_load(texts[place]) if place in texts else settings.read_yaml(Path(place))
    try:
        plan = settings.read_settings(data, Plan)
        for key, value in map(settings.assignment, assignments):
            if all(key in changes for changes in plan.arms.values()):
                raise ConfigError(f"--set {key}: all arms set it; change it in a copy")
            in_set = {"set": {**(data.get("set") or {}), key: value}}
            data |= {key: value} if key == "seeds" else in_set
        plan = settings.read_settings(data, Plan)
        for arm in plan.arms:
            plan.run_config(arm, plan.seeds[0])
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    return replace(plan, question=plan.question.strip())


def open_home(plan: Plan, home: Path) -> Plan:
    """Save the plan as plan.yaml of the directory, with its preset's settings, and return it.

    Raises RunDirectoryError for a directory with another plan or other files.
    """
    plan, path = replace(plan, preset=None, config=plan.base()), home / PLAN
    home.mkdir(parents=True, exist_ok=True)
    if not path.is_file():
        if any(place.name != LOCK for place in home.iterdir()):
            raise RunDirectoryError(f"{home} is not empty and has no {PLAN}; choose another --out")
        plain = json.loads(json.dumps(asdict(plan)))
        write_text(path, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
    elif plan != open_plan(str(path)):
        raise RunDirectoryError(
            f"{home} holds another plan; choose another --out, or resume it with `{program()} "
            f"experiment {quote(path)} --out {quote(home)}`"
        )
    return plan


def run_experiment(plan: Plan, home: Path, *, workers: int = 2) -> list[str]:
    """Do all runs of the plan that are not done; return a line for each run that failed.

    Raises RunDirectoryError for a directory of another plan, or one that another process uses. On
    KeyboardInterrupt the runs are stopped, and their checkpoints stay.
    """
    from rich.console import Console
    from rich.progress import Progress

    plan, stop = open_home(plan, home), threading.Event()
    if cores() < workers:
        line = f"{workers} runs at a time share the {cores()} cores of this process; see --workers"
        click.echo(line.replace("the 1 cores", "the one core"), err=True)
    runs = plan.runs(home)
    with (
        closing(lock(home)),
        Progress(console=Console(stderr=True)) as progress,
        ThreadPoolExecutor(workers) as pool,
    ):
        total = sum(run.config.steps for run in runs)
        bar = progress.add_task("steps", total=total, completed=_steps(runs))
        jobs = {pool.submit(_make, run, stop): run for run in runs if not run.is_finished}
        running = dict(jobs)
        try:
            while running:
                time.sleep(POLL_S)
                for job in [job for job in running if job.done()]:
                    run, result = running.pop(job), "failed" if job.result() else "done"
                    progress.console.print(f"{result}: {run.arm}, seed {run.seed}")
                progress.update(bar, completed=_steps(runs))
        finally:
            stop.set()
    return [failure for job in jobs if (failure := job.result())]


def _steps(runs: Sequence[PlannedRun]) -> int:
    paths = [run.directory / METRICS for run in runs]
    return sum(path.read_bytes().count(b"\n") for path in paths if path.is_file())


def _make(run: PlannedRun, stop: threading.Event) -> str:
    """Train or resume a run in a process of its own; return its failure, or ''."""
    home = run.directory
    log, preset = (home.with_name(f"{home.name}.{end}") for end in ("log", "yaml"))
    if stop.is_set():
        return ""
    if (home / CONFIG).is_file():
        _wait_until_free(home)  # of a process of an earlier call
        words = ["resume", home]
    else:
        write_text(preset, config_text(run.config))
        words = ["train", "--preset", preset, "--out", home]
    command = [sys.executable, "-c", _SELFPLAY, *map(str, words), "--quiet"]
    with log.open("wb") as file:  # a session of its own: Ctrl-C reaches this process only
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        while process.poll() is None:
            if stop.wait(POLL_S):
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):  # a callback may have swallowed it
                    process.wait(PATIENCE_S)
    preset.unlink(missing_ok=True)
    if process.returncode == 0 and run.is_finished:
        log.unlink()
        return ""
    lines = log.read_text(errors="replace").strip().splitlines()
    why = lines[-1].removeprefix("error: ") if lines else f"exit code {process.returncode}"
    return f"{run.arm}, seed {run.seed}: {why} ({log})"


def _wait_until_free(directory: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(RunDirectoryError):
            lock(directory).close()
            return
        time.sleep(POLL_S)
