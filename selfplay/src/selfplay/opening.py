"""Open what a run works with in this process: the base, the learner, the engine, the members."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lora_evo import Adapter, LoraEvoError, load_adapter
from lora_evo.model import (
    BaseModel,
    Engine,
    HFEngine,
    Serving,
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
from selfplay.devices import refuse_float32, set_allocator
from selfplay.errors import ConfigError
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import Learner, NamedState
from selfplay.learning.statistics import UpdateStats
from selfplay.learning.try_out import check_targets, try_out
from selfplay.learning.weight_sync import WeightSync
from selfplay.members import Advance, Members, all_founders, role_of
from selfplay.prompts.template import Template
from selfplay.records.rows import WorkerRow
from selfplay.rollout import Attempt, Prompts, Proposed


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
            yield self.prompts.read_proposal(drafts[i], rollout)

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        """Sample every attempt; yield them in the order in which they are finished."""
        for i, rollout in self.engine.stream(self.prompts.of_attempts(attempts)):
            yield self.prompts.read_attempt(attempts[i], rollout)

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
    device = choose_device(config.device)
    if config.engine == "vllm":
        require_vllm()
        refuse_float32(config, device.type == "cuda")
    set_allocator(config)
    if config.threads:
        torch.set_num_threads(config.threads)
    base = load_base_model(config.base, device, config.dtype)
    shapes = linear_shapes(base.model)
    check_targets(base, config.learner.target_modules)
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
    try_out(learner, tokenizer)
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


def warm_start(population: Members, config: Config) -> None:
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
