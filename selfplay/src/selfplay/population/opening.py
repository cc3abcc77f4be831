"""What a run works with, opened in this process: base model, members, engine, judge, template."""

import gc
from collections.abc import Sequence

import torch

from code_verifier import Limits, Sandbox
from evals.engine.base_model import choose_device, load_base_model
from evals.engine.generation import StackedEngine
from evals.engine.rollout_engine import RolloutEngine
from evals.engine.streams import derive_seed
from evals.vllm_engine.adapter_check import linear_shapes
from evals.vllm_engine.installed import require_vllm
from selfplay.config.run_config import RunConfig
from selfplay.learning.learner import Learner
from selfplay.population.founders import all_founders, role_of
from selfplay.population.vllm_sampling import open_vllm
from selfplay.prompts.template import Template, template_named


def open_sandbox(config: RunConfig) -> Sandbox:
    """Return the run's judge."""
    s = config.sandbox
    limits = Limits(wall_s=s.wall_s, cpu_s=s.cpu_s, memory_mb=s.memory_mb)
    return Sandbox(workers=s.workers, limits=limits, runs=s.runs)


def open_learner(
    config: RunConfig, members: Sequence[str] | None = None
) -> tuple[Learner, RolloutEngine]:
    """Load the base model, put fresh adapters on it, and open the engine.

    members: some of the founders; None for all. A fresh adapter depends on its name alone.
    """
    if config.engine == "vllm":
        require_vllm()
    if config.threads:
        torch.set_num_threads(config.threads)
    base = load_base_model(config.base, choose_device(config.device), config.dtype)
    shapes = linear_shapes(base.model)
    tokenizer = base.tokenizer
    members = all_founders(config) if members is None else members
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
        learner.adapters,
        tokenizer,
        max_rows=rollout.max_rows,
        merge_rows=rollout.merge_rows,
        by_member=rollout.by_member,
    )
    if config.engine == "vllm":
        engine = open_vllm(config, base, shapes, len(members))
    gc.collect()
    return learner, engine


def open_template(config: RunConfig) -> Template:
    """Return the run's prompt template."""
    return template_named(config.template, config.base)
