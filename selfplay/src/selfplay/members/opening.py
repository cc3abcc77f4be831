"""Open what a run works with in this process: the base, the learner, the engine, the members."""

import errno
import gc
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lora_evo import Adapter, LoraEvoError, load_adapter, save_adapter
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
from selfplay.errors import ConfigError
from selfplay.files.layout import hash_file
from selfplay.files.rows import MemberRow
from selfplay.learning.batch import TrainingSample
from selfplay.learning.exchange import Exchange
from selfplay.learning.learner import Learner, MemberState
from selfplay.machine.devices import refuse_float32, set_allocator
from selfplay.members.population import Advance, Members, SavedMember, role_of
from selfplay.members.weight_sync import WeightSync, folder_of
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import W
from selfplay.tasks.template import Template


class Population(Members):
    """All members, in this process. In `workers.pool` several processes share their work."""

    def __init__(
        self, learner: Learner, engine: Engine, config: Config, template: Template
    ) -> None:
        prompts = Prompts(config, template, engine.tokenizer, engine.context)
        super().__init__(config, prompts, engine.shares_parameters)
        self.learner, self.engine = learner, engine
        self._weight_sync = WeightSync(learner, engine, config.dtype)

    @property
    def members(self) -> tuple[str, ...]:
        return self.learner.members

    def written(self, pieces: Sequence[Sequence[W]]) -> Iterator[W]:
        # An engine of its own makes up its batches, in which company changes no sample.
        together = pieces if self.shares_parameters else [[a for piece in pieces for a in piece]]
        for piece in together:
            for i, rollout in self.engine.stream(self.prompts.requests(piece)):
                yield self.prompts.read(piece[i], rollout)

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, MemberRow]:
        self.engine.release()
        return self.learner.update(samples, lr_factor, advance)

    def sync(self, step: int) -> None:
        self.engine.restore()
        self._weight_sync(step)

    def export(self, member: str) -> Adapter:
        return self.learner.export(member)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self.learner.replace(member, adapter, new_name)

    def save(self, folder: Path, home: Path) -> list[SavedMember]:
        return [save_member(state, adapter, folder, home) for state, adapter in self.owned()]

    def owned(self) -> Iterator[tuple[MemberState, Adapter]]:
        """Yield each member whose moments are here, which without other workers is each."""
        for place in self.learner.exchange.owned(len(self.members)):
            yield self.learner.member_state(place), self.export(self.members[place])

    def load(self, folder: Path, members: Sequence[SavedMember]) -> None:
        for place, saved in enumerate(members):
            self.learner.load_member(place, read_member(folder, saved))


def save_member(state: MemberState, adapter: Adapter, folder: Path, home: Path) -> SavedMember:
    """Write a member to a checkpoint's folder, and its adapter to `home/<name>`."""
    path = folder / f"{state.name}.safetensors"
    try:
        save_file(dict(state.tensors), path)
    except SafetensorError as error:
        # The library wraps what the system said, a full disk for one, in an error of its own.
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error
    save_adapter(adapter, home / state.name, overwrite=True)
    return SavedMember(state.name, state.optimizer, hash_file(path))


def read_member(folder: Path, saved: SavedMember) -> MemberState:
    """Return what `save_member` wrote to a checkpoint's folder."""
    return MemberState(saved.name, load_file(folder / f"{saved.name}.safetensors"), saved.scalars)


@contextmanager
def open_population(config: Config, template: Template) -> Iterator[Population]:
    """Open all members in this process."""
    learner, engine = open_learner(config)
    with closing(engine):
        yield Population(learner, engine, config, template)


def open_learner(config: Config, exchange: Exchange | None = None) -> tuple[Learner, Engine]:
    """Load the base model, put fresh adapters on it, and open the engine.

    exchange: with other learners of the run.
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
    tokenizer, rollout = base.tokenizer, config.rollout
    members = config.founders
    learner = Learner(
        base.model,
        tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0,
        members,
        config.learner,
        seed=derive_seed(config.seed, "adapters"),
        base_model=config.base,
        base_hash=base.fingerprint,
        roles=[role_of(member) for member in members],
        temperature=rollout.temperature,
        max_completion_length=rollout.max_completion_length,
        pieces=config.pieces,
        exchange=exchange,
    )
    engine: Engine = HFEngine(learner.adapters, tokenizer, max_rows=rollout.max_rows)
    if config.engine == "vllm":
        share = partial(folder_of, learner)
        engine = open_vllm(config, base, shapes, len(members), share)
    gc.collect()
    return learner, engine


def open_vllm(
    config: Config,
    base: BaseModel,
    shapes: Mapping[str, tuple[int, int]],
    members: int,
    share: Callable[[str, Callable[[], Path]], Path] | None = None,
) -> VLLMEngine:
    """Open an engine with room for as many members as the run has.

    shapes: of the base's linear layers, as they were before members were put on them. share: as
    `VLLMEngine` takes it.
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
    return VLLMEngine(base, serving, options, shapes, threads=config.threads, share=share)


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
