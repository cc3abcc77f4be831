"""Sampler and learner on one base: how far their log-probabilities are apart, and at what speed."""

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

from lora_evo.model import Engine, Request, Rollout
from selfplay import load_preset
from selfplay.learning.learner import Learner
from selfplay.members.population import open_learner
from selfplay.members.weight_sync import send
from setting import SHARE, Setting

CONTROL = {"float32": 1000.0, "bfloat16": 3.0, "float16": 3.0}
"""How many times as far, in the mean, another member's weights are at least from what the sampler
says, by dtype. How far rounding alone moves a token depends on the processor: in bfloat16 a single
one differs by nats, and then k3 by more than all others together. Engine hf has 100,000 and 9."""


@dataclass(frozen=True)
class Pair:
    """A learner and its engine, as a run opens them; sync: makes them equal."""

    learner: Learner
    engine: Engine
    sync: Callable[[int], None]
    seconds: float

    @property
    def names(self) -> tuple[str | None, ...]:
        """The base, and every member."""
        return (None, *self.learner.members)


@contextmanager
def opened(setting: Setting, base: str | Path, *assignments: str) -> Iterator[Pair]:
    """Open a learner of random adapters on a base, and its engine."""
    config = load_preset(
        "nano", f"base={base}", f"engine={setting.engine}", "threads=0", "rollout.max_rows=64",
        "vllm.max_model_len=384", f"vllm.gpu_memory_utilization={SHARE}",
        *setting.assignments(*assignments),
    )  # fmt: skip
    begun = time.perf_counter()
    learner, engine = open_learner(config)
    sync, seconds = partial(send, learner, engine, {}, config.dtype), time.perf_counter() - begun
    try:
        yield Pair(learner, engine, sync, seconds)
    finally:
        engine.close()


@torch.no_grad()
def move(learner: Learner, seed: int, size: float) -> None:
    """Move every member, each in its own direction; size: spread of what is added to B."""
    draws = torch.Generator().manual_seed(seed)
    for layer in learner.adapters.layers.values():
        for up in layer.lora_B:
            up.add_((size * torch.randn(up.shape, generator=draws)).to(up))


def requests(
    names: Sequence[str | None], temperature: float, count: int = 4, seed: int = 0,
    tokens: int = 24, **more: Any,
) -> list[Request]:  # fmt: skip
    """Return requests by everyone for each of `count` prompts of 70 tokens; more: of a Request."""
    rng = Random(seed)
    prompts = [tuple(rng.randrange(2, 400) for _ in range(70)) for _ in range(count)]
    return [
        Request(ids, name, tokens, temperature, seed=97 * i + 5, **more)
        for i, ids in enumerate(prompts)
        for name in names
    ]


@torch.no_grad()
def own_logprobs(learner: Learner, rollout: Rollout, by: str | None, heat: float) -> torch.Tensor:
    """Return the learner's log-probabilities [tokens] of a sample; heat: temperature."""
    adapters, ids = learner.adapters, [*rollout.prompt_ids, *rollout.completion_ids]
    with adapters.route([adapters.index(by)]):
        logits = learner.model(input_ids=torch.tensor([ids], device=adapters.device)).logits
    table = torch.log_softmax(logits[0, len(rollout.prompt_ids) - 1 : -1].float() / heat, -1)
    return table.cpu().gather(1, torch.tensor(rollout.completion_ids)[:, None])[:, 0]


def gap(
    learner: Learner, rollouts: Sequence[Rollout], heat: float = 1.0,
    others: dict[str | None, str | None] | None = None,
) -> dict[str, float]:  # fmt: skip
    """Return how far sampler and learner are apart, in nats a token.

    max, mean: of the difference. kl: the estimator k3 of the divergence, for samples that were
    drawn. others: compare with these members in place of those that wrote.
    """
    by = others or {rollout.adapter: rollout.adapter for rollout in rollouts}
    differences = torch.cat(
        [
            torch.tensor(rollout.logprobs)
            - own_logprobs(learner, rollout, by[rollout.adapter], heat)
            for rollout in rollouts
        ]
    )
    kl = float((torch.exp(-differences) - 1 + differences).mean())
    sizes = differences.abs()
    return {"max": float(sizes.max()), "mean": float(sizes.mean()), "kl": kl, "tokens": len(sizes)}


def control(learner: Learner, rollouts: Sequence[Rollout], heat: float = 1.0) -> dict[str, float]:
    """Return the gap with the weights of another member, or of the base for the last."""
    names = (None, *learner.members)
    return gap(learner, rollouts, heat, dict(zip(names, (*learner.members, None), strict=True)))


def healthy(row: dict[str, float], other: dict[str, float], dtype: str) -> bool:
    """Whether rounding explains a gap; other: that of other weights."""
    return row["mean"] * CONTROL[dtype] < other["mean"]


def agree(setting: Setting) -> None:
    """Write a row, on a GPU with CUDA graphs; where that fails, later steps do without."""
    compared(setting, "agree", setting.device == "cpu")


def eager(setting: Setting) -> None:
    """Write a row without compiling."""
    compared(setting, "eager", True)


def compared(setting: Setting, step: str, plain: bool) -> None:
    """Write the row of a step; plain: nothing is compiled."""
    try:
        result = agreement(setting, plain)
    except Exception as error:
        traceback.print_exc()
        result = {"passed": False, "error": f"{type(error).__name__}: {error}"[:400]}
    setting.write(step, **result)
    if not (plain or result["passed"]):
        setting.eager.touch()
    sys.exit(not result["passed"])


def agreement(setting: Setting, plain: bool) -> dict[str, Any]:
    """Sample by members far from the base, and compare with the learner; a control, and speed."""
    base = setting.random_base("Qwen2.5-0.5B")
    more = ("teachers=2", "students=1", "learner.r=16", "learner.lora_alpha=32")
    with opened(setting, base, *more, f"vllm.enforce_eager={str(plain).lower()}") as pair:
        move(pair.learner, 1, 0.02)
        begun = time.perf_counter()
        pair.sync(1)
        row: dict[str, Any] = {"open_s": pair.seconds, "sync_s": time.perf_counter() - begun}
        drawn = pair.engine.generate(requests(pair.names, 1.0, 8))
        row["greedy"] = gap(pair.learner, pair.engine.generate(requests(pair.names, 0.0)))
        row["drawn"] = gap(pair.learner, drawn)
        row["control"] = control(pair.learner, drawn)
        for _ in range(2):  # the second time is that of a warm engine
            begun = time.perf_counter()
            rollouts = pair.engine.generate(requests(pair.names, 1.0, 16, tokens=128))
            count = sum(len(rollout.completion_ids) for rollout in rollouts)
            row["tokens_a_second"] = count / (time.perf_counter() - begun)
        return {"passed": healthy(row["drawn"], row["control"], setting.dtype), **row}
