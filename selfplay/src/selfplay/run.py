"""An open run: its configuration, members and progress, and a user's extensions of it."""

import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from code_verifier import Sandbox, Task, Tasksets
from league import League
from lora_evo import Operator
from lora_evo.model import derive_seed
from selfplay import __version__
from selfplay.config import Config
from selfplay.files.rows import StepRow
from selfplay.learning.rewards import StudentReward, TeacherFunction
from selfplay.members.population import Members
from selfplay.reports.progress import Progress
from selfplay.sampling.judge import grade, validate
from selfplay.sampling.texts import Attempt, Proposed, W
from selfplay.tasks.buffer import TaskBuffer
from selfplay.tasks.held_out import HELD_OUT, Guard, equal_task
from selfplay.tasks.kind import TaskKind
from selfplay.tasks.template import Template


@cache
def code_version() -> str:
    """Return the commit of this code, `-dirty` if its checkout has changes, else its version."""
    git = partial(subprocess.run, cwd=Path(__file__).parent, capture_output=True, check=True)
    try:  # the first fails where this folder is no part of the checkout, as in an environment
        git(["git", "rev-parse", "HEAD:./"])
        commit = git(["git", "describe", "--always", "--dirty", "--exclude=*"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return str(commit.stdout).strip()


@dataclass(frozen=True)
class Extensions:
    """A user's own rewards, operators, task kinds and callbacks.

    Rewards, operators and task kinds take precedence over the configuration. config.yaml records
    their names: `module:name`, or `:name` if no import finds it.

    - teacher_reward: function of a `Proposed` (see `TeacherReward`) that returns a finite number.
    - student_reward: the same of an `Attempt`. Checkpoints keep the state of a reward with
      `state_dict` and `load_state_dict`.
    - operators: mutations and crossovers, in place of the configured ones of their kind.
    - task_kinds: in play together with `rollout.kinds`.
    - callbacks: called after each step with the run and its `StepRow`, including the step's
      proposals and measurements; not recorded. One that returns True ends the run after this step.

    Example:

        >>> Extensions(teacher_reward=lambda proposed: float(proposed.task is not None))
    """

    teacher_reward: TeacherFunction | None = None
    student_reward: StudentReward | None = None
    operators: Sequence[Operator] = ()
    task_kinds: Sequence[TaskKind] = ()
    callbacks: Sequence["Callable[[Run, StepRow], object]"] = ()


@dataclass(repr=False)
class Run:
    """The parts of an open run.

    - held_out: fixed tasks that members are measured on.
    - guard: those, and others of their sources; no member is trained on any.
    - born: number of members ever born, by role; the next child's number.
    - seed_tasks: the tasks that the run starts from.
    - buffer: tasks that teachers are shown as references.
    - league: None in mode azr, whose one agent has no opponent.
    - baseline_rates: solve rate of each held-out task before the first step, by `base` and `start`
      (the warm start).
    - parents: folders in `ancestors` of each child's parents.
    - rates: learning rates, before the schedule, of members that have another than the
      configuration's; a child has its first parent's.
    - state: the state of a training loop of your own, saved in every checkpoint: a dictionary of
      numbers, texts, lists, dictionaries and tensors, or an object with `state_dict`, of which
      `open_run` restores the dictionary.
    - tasksets: those of `verifiers` that tasks come from; they score replies.
    - structures: number of accepted programs by normalised structure (the coverage).
    - step: number of steps done; ended: whether a callback has ended the run.
    - kept: SHA-256 of the files of dead members and ancestors, by folder.
    - extensions: with the configured operators and rewards filled in; a student_reward of None is
      `verifier`.
    - progress: terminal output.
    """

    config: Config
    directory: Path
    population: Members
    sandbox: Sandbox
    held_out: Sequence[Task]
    born: dict[str, int]
    guard: Guard = field(default_factory=dict)
    seed_tasks: Sequence[Task] = ()
    buffer: TaskBuffer = field(default_factory=lambda: TaskBuffer(0))
    league: League | None = None
    baseline_rates: dict[str, list[float | None]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    state: Any = field(default_factory=dict)
    tasksets: Tasksets = field(default_factory=lambda: Tasksets(()))
    structures: Counter[str] = field(default_factory=Counter)
    step: int = 0
    ended: bool = False
    kept: dict[str, dict[str, str]] = field(default_factory=dict)
    extensions: Extensions = field(default_factory=Extensions)
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))

    def __repr__(self) -> str:
        place, members = f"step {self.step} of {self.config.steps}", self.population.members
        return f"Run({str(self.directory)!r}, {place}, members {' '.join(members)})"

    @cached_property
    def held_out_hash(self) -> str:
        """SHA-256 of `guard`."""
        rows = [task.to_row() for tasks in self.guard.values() for task in tasks]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @property
    def template(self) -> Template:
        """The prompt template, with the task kinds in play."""
        return self.population.prompts.template

    @property
    def proposers(self) -> list[str]:
        """The living members that write tasks."""
        return self._in_places_of(self.config.proposers)

    @property
    def solvers(self) -> list[str]:
        """The living members that solve tasks."""
        return self._in_places_of(self.config.solvers)

    def _in_places_of(self, founders: Sequence[str]) -> list[str]:
        places = zip(self.config.founders, self.population.members, strict=True)
        return [member for founder, member in places if founder in founders]

    def start_from(self, seeds: Sequence[Task]) -> None:
        """Set the run's seed tasks, and fill the buffer with them."""
        r = self.config.rollout
        self.seed_tasks, self.buffer = seeds, TaskBuffer(r.buffer_tasks, seeds, r.buffer_keeps)

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)

    def sample(self, drafts: Sequence[W], of: int = 0, after: int = 0) -> Iterator[W]:
        """Sample drafts or attempts; yield each when it is finished, and move the progress bar.

        of: the phase's total for the bar; 0: these are all. after: the count before these.
        """
        for count, text in enumerate(self.population.sample(drafts), after + 1):
            self.progress.advance(count, of or len(drafts))
            yield text

    def validate(self, written: Iterable[Proposed]) -> list[Proposed]:
        """Validate proposals in the sandbox while others are sampled; return them by number."""
        return validate(written, self.sandbox, self.population.prompts)

    def leave_out(self, proposed: Iterable[Proposed]) -> None:
        """Take back the tasks that are held out: status `held_out`."""
        for p in proposed:
            if p.task and (task := equal_task(p.task, self.guard)):
                p.status, p.reason = HELD_OUT, f"it is the held-out task {task.id}"
                p.task = p.metrics = None

    def attempt(self, attempts: Sequence[Attempt], of: int = 0, after: int = 0) -> None:
        """Sample attempts, and grade them meanwhile; of and after as for `sample`."""
        prompts = self.population.prompts
        grade(self.sample(attempts, of, after), self.sandbox, prompts, self.tasksets)
