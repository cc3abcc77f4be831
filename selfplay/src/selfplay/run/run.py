"""An open run: everything a step works with."""

import gc
from dataclasses import dataclass, field
from pathlib import Path

import torch

from code_verifier import Limits, Sandbox
from evals.engine.base_model import choose_device, load_base_model
from evals.engine.generation import StackedEngine
from evals.engine.rollout_engine import RolloutEngine
from evals.engine.sampling import derive_seed
from evals.vllm_engine.adapter_check import linear_shapes
from evals.vllm_engine.installed import require_vllm
from league import League
from selfplay.learning.learner import Learner
from selfplay.prompts.template import Template, template_named
from selfplay.run.buffer import TaskBuffer
from selfplay.run.config import RunConfig
from selfplay.run.vllm_sampling import open_vllm
from selfplay.run.yardstick_state import Yardstick


@dataclass
class Run:
    """The parts of a run and how far it is. Only `loop` and `evolution` change it."""

    config: RunConfig
    directory: Path
    template: Template
    learner: Learner
    engine: RolloutEngine
    """Samples the members' rollouts."""
    sandbox: Sandbox
    league: League | None
    """None in mode azr: one agent has nobody to be matched with."""
    buffer: TaskBuffer
    structures: set[str]
    """Normalised structures of all accepted programs so far: the coverage."""
    born: dict[str, int]
    """Members ever born of each role; the next child's number."""
    yardstick: Yardstick
    """What members are measured on."""
    step: int = 0
    """Steps done."""
    published: dict[str, str] = field(default_factory=dict)
    """Content hash of what the engine holds of each member, where it does not share them."""

    def seed(self, *keys: str | int) -> int:
        """Return the seed of one random choice of this run."""
        return derive_seed(self.config.seed, *keys)

    def close(self) -> None:
        """End the sandbox's processes and the engine, and release the league."""
        self.engine.close()
        self.sandbox.close()
        if self.league is not None:
            self.league.close()


def role_of(member: str) -> str:
    """Return the role that a member's name tells."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


def founders(config: RunConfig) -> tuple[list[str], list[str]]:
    """Return the names of the first teachers and students; one agent in mode azr."""
    if config.mode == "azr":
        return ["a0"], ["a0"]
    return (
        [f"t{i}" for i in range(config.teachers)],
        [f"s{i}" for i in range(config.students)],
    )


def open_sandbox(config: RunConfig) -> Sandbox:
    """Return the run's judge."""
    s = config.sandbox
    limits = Limits(wall_s=s.wall_s, cpu_s=s.cpu_s, memory_mb=s.memory_mb)
    return Sandbox(workers=s.workers, limits=limits, runs=s.runs)


def open_learner(config: RunConfig) -> tuple[Learner, RolloutEngine]:
    """Load the base model, put a fresh adapter for every founder on it, and open the engine."""
    if config.engine == "vllm":
        require_vllm()
    if config.threads:
        torch.set_num_threads(config.threads)
    base = load_base_model(config.base, choose_device(config.device), config.dtype)
    shapes = linear_shapes(base.model)
    tokenizer = base.tokenizer
    teachers, students = founders(config)
    members = list(dict.fromkeys(teachers + students))
    learner = Learner(
        base.model,
        tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0,
        members,
        config.learner,
        seed=derive_seed(config.seed, "adapters"),
        base_model=config.base,
        roles=[role_of(member) for member in members],
    )
    rollout = config.rollout
    engine: RolloutEngine = StackedEngine(
        learner.adapters, tokenizer, max_rows=rollout.max_rows, merge_rows=rollout.merge_rows
    )
    if config.engine == "vllm":
        engine = open_vllm(config, base, shapes, len(members))
    gc.collect()
    return learner, engine


def open_template(config: RunConfig) -> Template:
    """Return the run's prompt template."""
    return template_named(config.template, config.base)
