"""Populations: the interface of all members of a run, and its implementation in this process."""

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from safetensors.torch import load_file, save

from code_verifier import cores
from lora_evo import Adapter, LoraEvoError, save_adapter
from lora_evo.model import (
    BaseModel,
    Engine,
    HFEngine,
    Rollout,
    Serving,
    VLLMEngine,
    VLLMOptions,
    choose_device,
    derive_seed,
    linear_shapes,
    load_base_model,
    require_vllm,
)
from selfplay.config import Config
from selfplay.errors import SelfplayError
from selfplay.files.rows import BASE, MemberRow, role_of
from selfplay.learning.batch import TrainingSample
from selfplay.learning.exchange import Exchange
from selfplay.learning.learner import Advance, Learner, MemberState
from selfplay.learning.pieces import batches, deal, even
from selfplay.machine.devices import refuse_float32, refuse_four_bits, set_allocator
from selfplay.members.weight_sync import send
from selfplay.sampling.prompts import Prompts
from selfplay.sampling.texts import W
from selfplay.tasks.template import Template

Sampled: TypeAlias = tuple[int, Rollout, Any]
"""Number of a draft or an attempt, its rollout, and the proposal or answer in it."""


class Members(Protocol):
    """All members of a run: a `Population`, or a `RemotePopulation` on workers.

    - prompts: makes the requests of drafts and attempts.
    - shares_parameters: whether the engine samples with the learner's parameters, without `sync`.
    """

    config: Config
    prompts: Prompts
    shares_parameters: bool

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""

    def sample_pieces(self, pieces: Sequence[Sequence[W]]) -> Iterator[Sampled]:
        """Sample piece by piece; yield results in any order."""

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> dict[str, MemberRow]:
        """Let every member learn from its own samples; return statistics by member.

        rates: learning rates by member, of this update, where they differ from the
        configuration's; lr_factor scales all.
        """

    def sync(self, step: int) -> None:
        """Give the engine the members' parameters after this step."""

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter."""

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place, with a fresh optimiser state."""

    def set_reference(self, adapter: Adapter) -> None:
        """Set the adapter that the KL divergence is from."""

    def save(self, folder: Path, home: Path) -> None:
        """Write every member to a checkpoint's folder, and its adapter to `home/<name>`."""

    def load(self, folder: Path, names: Sequence[str]) -> None:
        """Continue with the members that `save` wrote to a folder, by place."""

    def sample(self, drafts: Sequence[W]) -> Iterator[W]:
        """Sample drafts or attempts; yield each when it is finished."""
        pieces = self._cut(drafts)
        ordered = [a for piece in pieces for a in piece]
        for number, rollout, read in self.sample_pieces(pieces):
            ordered[number].take(rollout, read)
            yield ordered[number]

    def _cut(self, drafts: Sequence[W]) -> list[list[W]]:
        """Divide drafts or attempts into pieces; one if `pieces` is 0.

        Equal prompts, which are read once, stay together, and long ones are spread evenly.
        """
        config = self.config
        if not config.pieces:
            return [list(drafts)] if drafts else []
        texts = [self.prompts.text_of(a) for a in drafts]
        # An engine of its own makes up its batches, best of few members. Here mixed ones are cheap.
        apart = config.pieces == 1 or not self.shares_parameters
        rows: dict[str, list[int]] = defaultdict(list)
        for i in sorted(range(len(drafts)), key=lambda i: (len(texts[i]), texts[i])):
            rows[(drafts[i].writer or BASE) if apart else ""].append(i)
        sizes = {"teacher": config.teachers, "student": config.students}
        pieces = []
        for member, indices in sorted(rows.items()):
            size = sizes.get(role_of(member), 1) if apart else 1
            fitting = batches(len(indices)) if self.shares_parameters else len(indices)
            count = even(min(fitting, -(-config.pieces // size)))
            hands = deal([texts[i] for i in indices], count)
            pieces += [[drafts[indices[k]] for k in hand] for hand in hands]
        return pieces


class Population(Members):
    """All members, in this process."""

    def __init__(self, learner: Learner, engine: Engine, config: Config, template: Template):
        self.config, self.learner, self.engine = config, learner, engine
        self.prompts = Prompts(config, template, engine.tokenizer, engine.context)
        self.shares_parameters = engine.shares_parameters
        self._send = partial(send, learner, engine, {}, config.dtype)

    @property
    def members(self) -> tuple[str, ...]:
        return self.learner.members

    def sample_pieces(self, pieces: Sequence[Sequence[W]]) -> Iterator[Sampled]:
        # An engine of its own makes up its batches, in which other rows change no sample.
        together = pieces if self.shares_parameters else [[a for piece in pieces for a in piece]]
        before = 0
        for piece in together:
            for i, rollout in self.engine.stream(self.prompts.requests(piece)):
                yield before + i, rollout, self.prompts.read(piece[i], rollout)
            before += len(piece)

    def update(self, *arguments: Any, **named: Any) -> dict[str, MemberRow]:
        self.engine.release()
        return self.learner.update(*arguments, **named)

    def sync(self, step: int) -> None:
        self.engine.restore()
        self._send(step)

    def export(self, member: str) -> Adapter:
        return self.learner.export(member)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self.learner.replace(member, adapter, new_name)

    def set_reference(self, adapter: Adapter) -> None:
        self.learner.set_reference(adapter)

    def save(self, folder: Path, home: Path) -> None:
        for place, name in enumerate(self.members):
            save_member(self.learner.member_state(place), self.export(name), folder, home)

    def load(self, folder: Path, names: Sequence[str]) -> None:
        for place, name in enumerate(names):
            self.learner.load_member(place, read_member(folder, name))


def save_member(state: MemberState, adapter: Adapter, folder: Path, home: Path) -> None:
    """Write a member to a checkpoint's folder, and its adapter to `home/<name>`."""
    # safetensors' own errors do not name a full disk.
    (folder / f"{state.name}.safetensors").write_bytes(save(dict(state.tensors)))
    with naming(state.name):
        save_adapter(adapter, home / state.name, overwrite=True)


@contextmanager
def naming(member: str) -> Iterator[None]:
    """Name the member in an error of its adapter, such as one that holds NaN."""
    try:
        yield
    except LoraEvoError as error:
        raise SelfplayError(f"{member}: {error}") from error.__cause__


def read_member(folder: Path, name: str) -> MemberState:
    """Return the state that `save_member` wrote to a checkpoint's folder."""
    return MemberState(name, load_file(folder / f"{name}.safetensors"))


@contextmanager
def open_population(config: Config, template: Template) -> Iterator[Population]:
    """Open all members in this process."""
    learner, engine = open_learner(config)
    with closing(engine):
        yield Population(learner, engine, config, template)


def load_base(config: Config) -> BaseModel:
    """Load the base model of a run on its device, and set torch's threads."""
    set_allocator(config)
    if config.threads or cores() < torch.get_num_threads():  # torch overlooks a container's share
        torch.set_num_threads(config.threads or cores())
    device = choose_device(config.device)
    return load_base_model(config.base, device, config.dtype, config.load_in_4bit)


def open_learner(config: Config, exchange: Exchange | None = None) -> tuple[Learner, Engine]:
    """Load the base model, put fresh adapters on it, and open the engine.

    exchange: connects the learner with others of the same members.
    """
    if config.engine == "vllm":
        refuse_four_bits(config)
        require_vllm()
        refuse_float32(config, choose_device(config.device).type == "cuda")
    base, rollout = load_base(config), config.rollout
    shapes = linear_shapes(base.model)
    learner = Learner(
        base.model,
        config.founders,
        config.learner,
        seed=derive_seed(config.seed, "adapters"),
        rollout=rollout,
        pieces=config.pieces,
        exchange=exchange,
        has_reference=config.pulls_to_start,
    )
    learner.base_model, learner.base_hash = config.base, base.fingerprint
    engine: Engine = HFEngine(learner.adapters, base.tokenizer, max_rows=rollout.max_rows)
    if config.engine == "vllm":
        engine = open_vllm(config, base, shapes, len(config.founders))
    gc.collect()
    return learner, engine


def open_vllm(
    config: Config, base: BaseModel, shapes: Mapping[str, tuple[int, int]], members: int
) -> VLLMEngine:
    """Open an engine with room for as many members as the run has.

    shapes: of the base's linear layers, as they were before members were put on them.
    """
    serving = Serving(
        model=base.model.name_or_path,
        dtype=config.dtype,
        device=base.model.device,
        context=base.context,
        max_adapters=members,
        max_rank=config.learner.r,
    )
    options = VLLMOptions(**asdict(config.vllm), max_rows=config.rollout.max_rows)
    options = replace(options, max_model_len=options.max_model_len or config.longest_sample)
    return VLLMEngine(base, serving, options, shapes, threads=config.threads)
