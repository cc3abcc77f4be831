"""An open run: its configuration, its members, how far it is, and what a user adds to it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from code_verifier import Sandbox, Task
from league import League
from lora_evo import Operator
from lora_evo.model import derive_seed
from selfplay.config import Config
from selfplay.files.rows import StepRow
from selfplay.learning.rewards import StudentReward, TeacherFunction
from selfplay.members.population import Population
from selfplay.reports.progress import Progress
from selfplay.sampling.judge import grade, validated
from selfplay.sampling.texts import Attempt, Proposed, W
from selfplay.tasks.buffer import HeldOutTask, TaskBuffer
from selfplay.tasks.kind import TaskKind
from selfplay.tasks.template import Template

if TYPE_CHECKING:
    from selfplay.members.remote import RemotePopulation

Callback: TypeAlias = "Callable[[Run, StepRow], None]"


@dataclass(frozen=True)
class Extensions:
    """What a user adds to a run: rewards, operators, task kinds and callbacks of their own.

    Rewards, operators and task kinds win over the configuration, and config.yaml says what they
    are called: `module:name`, or `:name` where no import finds it.

    - teacher_reward: of a `Proposed` (see `TeacherReward`), and student_reward: of an
      `Attempt`: finite numbers. An object with `state_dict` and `load_state_dict` has its state
      kept in checkpoints.
    - operators: mutations and crossovers instead of the configured ones of their kind.
    - task_kinds: in play with those of `rollout.kinds`.
    - callbacks: called after each step with the run and its `StepRow`, which holds the step's
      proposals and measurements, too; they are not recorded.

    Example:

        >>> Extensions(teacher_reward=lambda proposed: float(proposed.task is not None))
    """

    teacher_reward: TeacherFunction | None = None
    student_reward: StudentReward | None = None
    operators: Sequence[Operator] = ()
    task_kinds: Sequence[TaskKind] = ()
    callbacks: Sequence[Callback] = ()


@dataclass(repr=False)
class Run:
    """The parts of a run and how far it is.

    - held_out: the tasks that members are measured on; they never change.
    - born: members ever born of each role; the next child's number.
    - seed_tasks: those that the run starts from.
    - buffer: tasks that teachers are shown as references.
    - league: None in mode azr: the one agent has no opponent.
    - baseline_rates: solve rate of each held-out task before the first step: of the base and of a
      warm start.
    - parents: what each child was made of: folders of `ancestors`.
    - rates: learning rates, before the schedule, of members where they differ from the
      configuration's; a child has that of its first parent.
    - state: what a loop of your own keeps, in every checkpoint: a dictionary of numbers, texts,
      lists, dictionaries and tensors, or an object with `state_dict`, whose dictionary `open_run`
      puts here.
    - structures: how often each normalised structure came in accepted programs: the coverage.
    - step: steps done.
    - extensions: with all operators that children are made with, and the configured rewards; a
      student_reward of None is `verifier` with the values of the configuration.
    - sources: hashes of the source of what is a user's own, by setting and name.

    - progress: what shows it.
    """

    config: Config
    directory: Path
    population: "Population | RemotePopulation"
    sandbox: Sandbox
    held_out: Sequence[HeldOutTask]
    born: dict[str, int]
    seed_tasks: Sequence[Task] = ()
    buffer: TaskBuffer = field(default_factory=lambda: TaskBuffer(0))
    league: League | None = None
    baseline_rates: dict[str, list[float | None]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    state: Any = field(default_factory=dict)
    structures: Counter[str] = field(default_factory=Counter)
    step: int = 0
    extensions: Extensions = field(default_factory=Extensions)
    sources: dict[str, str] = field(default_factory=dict)

    progress: Progress = field(default_factory=lambda: Progress(quiet=True))

    def __repr__(self) -> str:
        done, members = f"step {self.step} of {self.config.steps}", self.population.members
        return f"Run({str(self.directory)!r}, {done}, members {' '.join(members)})"

    @property
    def template(self) -> Template:
        """The task kinds in play, and what they are asked in."""
        return self.population.prompts.template

    def start_from(self, seeds: Sequence[Task]) -> None:
        """Let the run start from these tasks."""
        r = self.config.rollout
        self.seed_tasks, self.buffer = seeds, TaskBuffer(r.buffer_tasks, seeds, r.buffer_keeps)

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)

    def sampled(self, asked: Sequence[W], of: int = 0, after: int = 0) -> Iterator[W]:
        """Let drafts or attempts be written; yield each as soon as it is, and show how many are.

        of: pieces of work that the phase has, if there are others; after: those done before.
        """
        for done, written in enumerate(self.population.sample(asked), after + 1):
            self.progress.advance(done, of or len(asked))
            yield written

    def validated(self, written: Iterable[Proposed]) -> list[Proposed]:
        """Let the sandbox validate proposals as they are written; return them in their order."""
        return validated(written, self.sandbox, self.population.prompts)

    def attempt(self, attempts: Sequence[Attempt], of: int = 0, after: int = 0) -> None:
        """Let attempts be written, and grade them meanwhile; see `sampled`."""
        written = self.sampled(attempts, of, after)
        grade(written, self.sandbox, self.population.prompts)
