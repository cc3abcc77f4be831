"""An open run and its members on one frozen base: they write, learn, are replaced and saved."""

import gc
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from code_verifier import Sandbox, Task
from league import League
from lora_evo import Adapter, LoraEvoError, adapter_hash, load_adapter
from lora_evo.model import (
    BaseModel,
    Engine,
    HFEngine,
    Rollout,
    Serving,
    TokenRequest,
    VLLMEngine,
    VLLMOptions,
    choose_device,
    derive_seed,
    linear_shapes,
    load_base_model,
    require_vllm,
    resolve,
    same_base,
)
from selfplay.config import Config
from selfplay.errors import ConfigError, SelfplayError
from selfplay.extensions import Extensions
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import Learner, NamedState
from selfplay.learning.statistics import UpdateStats
from selfplay.prompts.template import Template
from selfplay.rollout import Attempt, Prompts, Proposed
from selfplay.rows import WorkerRow
from selfplay.tasks import HeldOutTask, TaskBuffer
from selfplay.tracking import Trackers

if TYPE_CHECKING:  # Ray is optional
    from selfplay.workers.pool import RemotePopulation

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest difference of the log-probability of one token that arithmetic explains, by the base's
number type: 5 to 100 times what was measured with vLLM on a CPU (float32 1e-5, bfloat16 0.1)."""
_PROBE_TOKENS = 8
T = TypeVar("T")
Advance = Callable[[int, int], None]
"""Hears how many pieces of a phase's work are done, and how many there are."""


def role_of(member: str) -> str:
    """Return the role that a member's name tells."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


def founders(config: Config) -> tuple[list[str], list[str]]:
    """Return the names of the first teachers and students; one agent in mode azr."""
    if config.mode == "azr":
        return ["a0"], ["a0"]
    return [f"t{i}" for i in range(config.teachers)], [f"s{i}" for i in range(config.students)]


def all_founders(config: Config) -> list[str]:
    """Return the names of all first members in the order of their places."""
    teachers, students = founders(config)
    return list(dict.fromkeys(teachers + students))


class Population:
    """All members, in this process. `workers.pool` spreads them over processes."""

    def __init__(
        self, learner: Learner, engine: Engine, config: Config, template: Template
    ) -> None:
        self.learner, self.engine = learner, engine
        self.prompts = Prompts(config, template, engine.tokenizer, engine.context)
        self._weight_sync = WeightSync(learner, engine, config.dtype)

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        return self.learner.members

    @property
    def shares_parameters(self) -> bool:
        """Whether what a member learns is what it samples with, without being synchronised."""
        return self.engine.shares_parameters

    def propose(self, drafts: Sequence[Proposed]) -> Iterator[Proposed]:
        """Sample every draft; yield proposals in the order in which they are finished."""
        for i, rollout in self.engine.stream(self.prompts.of_proposals(drafts)):
            text = self.engine.completion(rollout).text
            yield self.prompts.read_proposal(drafts[i], rollout, text)

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        """Sample every attempt; yield them in the order in which they are finished."""
        for i, rollout in self.engine.stream(self.prompts.of_attempts(attempts)):
            text = self.engine.completion(rollout).text
            yield self.prompts.read_attempt(attempts[i], rollout, text)

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, UpdateStats]:
        """Let every member learn from its own samples; return statistics by member."""
        self.engine.release()
        return self.learner.update(samples, lr_factor, advance)

    def sync(self, step: int) -> None:
        """Let members sample as they are after this step."""
        self.engine.restore()
        self._weight_sync(step)

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""
        return self.learner.export(member)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place, with a fresh optimiser state."""
        self.learner.replace(member, adapter, new_name)

    def state_dict(self) -> NamedState:
        """Return all that continues the members."""
        return self.learner.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.learner.load_state_dict(tensors, values)

    def end_step(self) -> dict[str, WorkerRow]:
        """Return what each worker did in the step; none here."""
        return {}


@contextmanager
def open_population(config: Config, template: Template) -> Iterator[Population]:
    """Open all members in this process."""
    learner, engine = open_learner(config)
    with closing(engine):
        yield Population(learner, engine, config, template)


def open_learner(config: Config, members: Sequence[str] | None = None) -> tuple[Learner, Engine]:
    """Load the base model, put fresh adapters on it, and open the engine.

    members: some of the founders; None for all. A fresh adapter depends on its name alone.
    """
    if config.engine == "vllm":
        require_vllm()
    if config.threads:
        torch.set_num_threads(config.threads)
    base = load_base_model(config.base, choose_device(config.device), config.dtype)
    shapes = linear_shapes(base.model)
    tokenizer, rollout = base.tokenizer, config.rollout
    members = all_founders(config) if members is None else members
    learner = Learner(
        base.model,
        tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0,
        members,
        config.learner,
        seed=derive_seed(config.seed, "adapters"),
        base_model=config.base,
        roles=[role_of(member) for member in members],
        temperature=rollout.temperature,
        max_completion_length=rollout.max_completion_length,
        by_member=config.batch_by_member,
    )
    engine: Engine = HFEngine(
        learner.adapters,
        tokenizer,
        max_rows=rollout.max_rows,
        by_member=config.batch_by_member,
    )
    if config.engine == "vllm":
        engine = open_vllm(config, base, shapes, len(members))
    gc.collect()
    return learner, engine


def open_vllm(
    config: Config, base: BaseModel, shapes: Mapping[str, tuple[int, int]], members: int
) -> VLLMEngine:
    """Open an engine with room for as many members as the run has.

    shapes: of the base's linear layers, as they were before members were put on them.
    """
    serving = Serving(
        model=resolve(config.base),
        dtype=config.dtype,
        device=base.model.device,
        context=base.context,
        max_adapters=members,
        max_rank=config.learner.r,
    )
    options = VLLMOptions(**asdict(config.vllm), max_rows=config.rollout.max_rows)
    options = replace(options, max_model_len=options.max_model_len or config.longest_sample)
    return VLLMEngine(base, serving, options, shapes, threads=config.threads)


def warm_start(population: "Population | RemotePopulation", config: Config) -> None:
    """Give every member the factors of the adapter that `warm_start` names, if it names one.

    Raises ConfigError for an adapter of another base, other modules or another rank.
    """
    if config.warm_start is None:
        return
    place = Path(config.warm_start)
    try:
        adapter = load_adapter(place)
        named = adapter.config.base_model_name_or_path
        if named is None or not same_base(named, config.base):
            raise LoraEvoError(f"it is an adapter of {named}, and base is {config.base}")
        for member in population.members:
            population.replace(member, adapter, member)
    except (LoraEvoError, OSError) as error:
        raise ConfigError(
            f"warm_start: {place}: {error}; expected a PEFT adapter of this base with learner.r="
            f"{config.learner.r} and learner.target_modules, such as `selfplay sft --base` makes"
        ) from error


def memory_mb() -> float:
    """Return the largest resident memory that this process has had, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 if sys.platform != "darwin" else 1024**2), 1)


class WeightSync:
    """Keeps an engine's adapters equal to a learner's members. dtype: of the base."""

    def __init__(self, learner: Learner, engine: Engine, dtype: str) -> None:
        self._learner, self._engine = learner, engine
        self._tolerance = TOLERANCE[dtype]
        self._sent: dict[str, str] = {}
        """Content hash of what the engine holds of each member."""

    def __call__(self, step: int) -> None:
        """Put every member that changed into the engine, as of this step; drop those that left.

        An engine that shares the learner's parameters needs nothing. Raises SelfplayError when the
        engine then does not give the learner's probabilities.
        """
        engine, learner = self._engine, self._learner
        if engine.shares_parameters:
            return
        for name in list(engine.versions):
            if name not in learner.members:
                engine.drop_adapter(name)
                self._sent.pop(name, None)
        for member in learner.members:
            adapter = learner.export(member)
            content = adapter_hash(adapter)
            if self._sent.get(member) != content:
                engine.put_adapter(member, step, adapter)
                self._sent[member] = content
        self._check_agreement()

    def _check_agreement(self) -> None:
        """Compare one token's log-probability of every member, and of the base."""
        for rollout, table in zip(*probe(self._learner, self._engine), strict=True):
            found, own = rollout.logprobs[0], table[rollout.completion_ids[0]]
            if not abs(found - own) <= self._tolerance:
                raise SelfplayError(
                    f"{rollout.adapter or 'the base'} in the engine is not the learner's: "
                    f"log-probability {found:.4f} of a token, expected {own:.4f} within "
                    f"{self._tolerance}; continue with `selfplay resume`, and with --engine hf if "
                    "it comes back"
                )


@torch.no_grad()
def probe(learner: Learner, engine: Engine) -> tuple[list[Rollout], list[list[float]]]:
    """Let the base and every member sample one token, the likeliest, after the same few.

    Returns the samples, and the learner's log-probabilities of all tokens in their places.
    """
    model, adapters = learner.model, learner.adapters
    ids = tuple(i % model.config.vocab_size for i in range(1, _PROBE_TOKENS + 1))
    names = (None, *learner.members)
    sampled = engine.rollouts([TokenRequest(name, ids, 1, temperature=0.0) for name in names])
    device = next(model.parameters()).device
    with adapters.route([adapters.index(name) for name in names]):
        tokens = torch.tensor([ids] * len(names), device=device)
        logits = model(input_ids=tokens).logits[:, -1]
    tables: list[list[float]] = torch.log_softmax(logits.float(), dim=-1).tolist()
    return sampled, tables


@dataclass(repr=False)
class Run:
    """The parts of a run and how far it is.

    - held_out: the tasks that members are measured on; they never change.
    - born: members ever born of each role; the next child's number.
    - seeds: the tasks that the run starts from.
    - buffer: tasks that teachers are shown as references.
    - league: None in mode azr: the one agent has no opponent.
    - before: solve rate of each held-out task before the first step: of the base and of a warm
      start.
    - parents: what each child was made of: folders of `ancestors`.
    - structures: how often each normalised structure came in accepted programs: the coverage.
    - step: steps done.
    - extensions: rewards, operators and callbacks.
    - advance: hears how far a phase is.
    - changed_rewards: by role, what is to be said of rewards that hold something else than at the
      start, and have no `state_dict`.
    """

    config: Config
    directory: Path
    population: "Population | RemotePopulation"
    sandbox: Sandbox
    held_out: Sequence[HeldOutTask]
    born: dict[str, int]
    seeds: Sequence[Task] = ()
    buffer: TaskBuffer = field(default_factory=lambda: TaskBuffer(0))
    league: League | None = None
    before: dict[str, list[float | None]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    structures: Counter[str] = field(default_factory=Counter)
    step: int = 0
    trackers: Trackers = field(default_factory=Trackers)
    extensions: Extensions = field(default_factory=Extensions)
    advance: Advance = lambda done, total: None
    changed_rewards: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        done, members = (
            f"step {self.step} of {self.config.steps}",
            " ".join(self.population.members),
        )
        return f"Run({str(self.directory)!r}, {done}, members {members})"

    @property
    def template(self) -> Template:
        """The task kinds in play, and what they are asked in."""
        return self.population.prompts.template

    def start_from(self, seeds: Sequence[Task]) -> None:
        """Let the run start from these tasks."""
        r = self.config.rollout
        self.seeds, self.buffer = seeds, TaskBuffer(r.buffer_tasks, seeds, r.buffer_keeps)

    def counted(self, pieces: Iterable[T], total: int, before: int = 0) -> Iterator[T]:
        """Yield pieces of a phase's work as they are done, and let `advance` hear of each.

        total: pieces of the phase, of which `before` are done.
        """
        for done, piece in enumerate(pieces, start=before + 1):
            self.advance(done, total)
            yield piece

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)
