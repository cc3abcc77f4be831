"""What a step works with, wherever it is: members that learn, the same that write, a judge."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from torch import Tensor

from code_verifier import Grade, Metrics, Proposal, Task, Validation
from lora_evo import Adapter
from selfplay.config.run_config import RunConfig
from selfplay.learning.batch import TrainingSample
from selfplay.learning.member_state import NamedState
from selfplay.learning.update_stats import UpdateStats
from selfplay.population.judging import LocalJudge
from selfplay.population.opening import open_learner, open_sandbox, open_template
from selfplay.population.prompt_bound import PromptBound
from selfplay.population.publishing import Publisher
from selfplay.population.writing import Answered, Draft, LocalWriters, Trial, Written
from selfplay.records.step_row import WorkerRow


class PopulationLearner(Protocol):
    """All members of a run; `learning.learner.Learner` holds them in this process."""

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        ...

    def update(
        self, samples: Sequence[TrainingSample], lr_factor: float = 1.0
    ) -> dict[str, UpdateStats]:
        """Let every member learn from its own samples; statistics by member."""
        ...

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""
        ...

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place, with a fresh optimiser state."""
        ...

    def state_dict(self) -> NamedState:
        """Return all that continues the members."""
        ...

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        ...


class Writers(Protocol):
    """All members and the frozen base, sampling."""

    shares_parameters: bool
    """Whether what a member learns is what it samples with, without being published."""

    def proposals(self, drafts: Sequence[Draft]) -> Iterator[tuple[int, Written]]:
        """Yield (number of the draft, what was written) in any order. Raises EvalsError."""
        ...

    def answers(self, trials: Sequence[Trial]) -> Iterator[tuple[int, Answered]]:
        """Yield (number of the trial, what was written) in any order. Raises EvalsError."""
        ...

    def release(self) -> None:
        """Give memory that only sampling needs to the learner."""
        ...

    def restore(self) -> None:
        """Take it back."""
        ...


class Judge(Protocol):
    """What is asked of the sandbox; verdicts come in the order of what was asked."""

    def validate_many(
        self, proposals: Iterable[Proposal], /
    ) -> Iterator[tuple[Validation, Metrics | None]]:
        """Judge proposals; metrics of those that became tasks."""
        ...

    def grade_many(self, answers: Iterable[tuple[Task, str]], /) -> Iterator[Grade]:
        """Grade answers to tasks."""
        ...


@dataclass(frozen=True)
class Parts:
    """The parts of a run that do the work."""

    learner: PopulationLearner
    writers: Writers
    judge: Judge
    excess: Callable[[Task], str]
    """Says why a task's prompts are too long; empty where they fit."""
    publish: Callable[[int], None]
    """Lets the writers sample from the members as of this step."""
    end_step: Callable[[], dict[str, WorkerRow]]
    """Tells what each worker did in the step, and lets others join; nothing in one process."""


OpenParts: TypeAlias = Callable[[RunConfig], AbstractContextManager[Parts]]


@contextmanager
def local_parts(config: RunConfig) -> Iterator[Parts]:
    """Everything in this process, but for the sandbox's own."""
    with open_sandbox(config) as sandbox:
        learner, engine = open_learner(config)
        with closing(engine):
            publisher = Publisher(learner, engine, config.dtype)
            template = open_template(config)
            bound = PromptBound(config, template, engine.tokenizer, engine.context)
            writers = LocalWriters(engine, template, config.rollout)
            judge = LocalJudge(sandbox)
            yield Parts(learner, writers, judge, bound.excess, publisher.publish, dict)
