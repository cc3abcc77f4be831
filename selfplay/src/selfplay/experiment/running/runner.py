"""Carries an experiment through: as many runs at a time as there are workers, each a process.

Whatever ends it, the same call goes on: finished runs are skipped, new_run ones resumed from their
newest checkpoint, and one that cannot go on is named while the others do.
"""

import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from evals.atomic import write_text
from selfplay.errors import RunDirectoryError
from selfplay.experiment.design.plan import Plan, differences, plan_text, resolved
from selfplay.experiment.design.plan_file import open_plan
from selfplay.experiment.design.runs import PlannedRun, is_finished, planned_runs
from selfplay.experiment.running.progress import Progress
from selfplay.run.directory import lock

PLAN = "plan.yaml"
POLL_S = 0.5
MOST_STARTS = 3
"""Starts of a run that is killed by a signal each time, before it is left to the user."""


@dataclass
class Runner:
    """The runs that wait, that go on, and that failed."""

    home: Path
    nice: int
    progress: Progress
    waiting: deque[PlannedRun]
    going: dict[PlannedRun, subprocess.Popen[bytes]] = field(default_factory=dict)
    starts: dict[Path, int] = field(default_factory=dict)
    failed: dict[PlannedRun, str] = field(default_factory=dict)

    def step(self, workers: int) -> None:
        """Take in the runs that ended and start those that there is room for."""
        for run, process in list(self.going.items()):
            code = process.poll()
            if code is not None:
                del self.going[run]
                self._ended(run, process, code)
        while self.waiting and len(self.going) < workers:
            self._start(self.waiting.popleft())
        self.progress.look(self.going)

    def stop(self) -> None:
        """End the runs that go on, in order: closing their pipe tells them to."""
        for process in self.going.values():
            if process.stdin is not None:
                process.stdin.close()
        for run, process in self.going.items():
            process.wait()
            self._log(run).unlink(missing_ok=True)
        self.going.clear()

    def _start(self, run: PlannedRun) -> None:
        log = self._log(run)
        log.parent.mkdir(parents=True, exist_ok=True)
        module = "selfplay.experiment.running.worker"
        place = (str(self.home), str(run.folder), str(self.nice))
        with log.open("wb") as errors:
            # Its own session: Ctrl-C at the terminal reaches this process alone.
            self.going[run] = subprocess.Popen(
                [sys.executable, "-m", module, *place],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        self.starts[run.folder] = self.starts.get(run.folder, 0) + 1

    def _ended(self, run: PlannedRun, process: subprocess.Popen[bytes], code: int) -> None:
        if process.stdin is not None:
            process.stdin.close()
        log = self._log(run)
        if code == 0 and is_finished(self.home / run.folder, run.config.steps):
            log.unlink()
            self.progress.finished(run)
        elif code < 0 and self.starts[run.folder] < MOST_STARTS:
            self.waiting.appendleft(run)
        else:
            said = log.read_text(errors="replace").strip().splitlines()
            ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            self._fail(run, f"{said[-1] if said else ended} ({log})")

    def _fail(self, run: PlannedRun, why: str) -> None:
        self.failed[run] = why
        self.progress.failed(run, why)

    def _log(self, run: PlannedRun) -> Path:
        return self.home / run.folder.with_name(run.folder.name + ".log")


def open_home(plan: Plan, home: Path) -> Plan:
    """Return the plan with all settings spelt out and keep it in the directory as plan.yaml.

    Raises RunDirectoryError where the directory holds another plan or other files.
    """
    mine, path = resolved(plan), home / PLAN
    if path.is_file():
        differ = differences(open_plan(str(path)), mine)
        if differ:
            shown = "; ".join(differ[:5]) + ("; ..." if len(differ) > 5 else "")
            raise RunDirectoryError(
                f"{home} holds another plan ({shown}); choose another --out, or go on with "
                f"`selfplay experiment {path} --out {home}`"
            )
        return mine
    if home.exists() and (not home.is_dir() or any(p.name != "run.lock" for p in home.iterdir())):
        raise RunDirectoryError(f"{home} is not empty and holds no {PLAN}; choose another --out")
    home.mkdir(parents=True, exist_ok=True)
    write_text(path, plan_text(mine))
    return mine


def run_experiment(
    plan: Plan, home: Path, *, workers: int = 2, nice: int = 10, quiet: bool = False
) -> Sequence[str]:
    """Do all runs of the plan that are not done; return what failed, a line each.

    Raises RunDirectoryError for a directory of another plan or one that is being worked in. On
    KeyboardInterrupt the runs are stopped with their checkpoints kept, then it goes on its way.
    """
    plan = open_home(plan, home)
    runs = planned_runs(plan)
    todo = [r for r in runs if not is_finished(home / r.folder, r.config.steps)]
    with closing(lock(home)), Progress(home, runs, workers, quiet=quiet) as progress:
        runner = Runner(home, nice, progress, deque(todo))
        try:
            while runner.waiting or runner.going:
                runner.step(workers)
                time.sleep(POLL_S)
        finally:
            runner.stop()
    return [f"{run.title}: {why}" for run, why in runner.failed.items()]
