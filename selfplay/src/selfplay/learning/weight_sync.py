"""Keep the adapters that an engine samples with equal to those that the learner trains."""

import math
from collections.abc import Callable
from pathlib import Path

import torch

from lora_evo import adapter_hash
from lora_evo.model import Engine, Request, Rollout
from selfplay.errors import SelfplayError
from selfplay.learning.learner import Learner

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest difference of the log-probability of one token that arithmetic explains, by the base's
number type: 5 to 100 times what was measured with vLLM on a CPU (float32 1e-5, bfloat16 0.1)."""
_PROBE_TOKENS = 8


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
        for rollout, table in zip(*sample_one_token(self._learner, self._engine), strict=True):
            sampled, expected = rollout.logprobs[0], table[rollout.completion_ids[0]]
            both_failed = math.isnan(sampled) and math.isnan(expected)  # the update skips those
            if not (both_failed or abs(sampled - expected) <= self._tolerance):
                raise SelfplayError(
                    f"{rollout.adapter or 'the base'} in the engine is not the learner's: "
                    f"log-probability {sampled:.4f} of a token, expected {expected:.4f} within "
                    f"{self._tolerance}; continue with `selfplay resume`, and with --engine hf if "
                    "it comes back"
                )


def folder_of(learner: Learner, label: str, write: Callable[[], Path]) -> Path:
    """Return where this machine has an adapter `member@version`; one of its learners writes it.

    For learners that put the same adapters in the same order.
    """
    name, exchange = label.partition("@")[0], learner.exchange
    writer = exchange.writer(learner.members.index(name) if name in learner.members else 0)
    return Path(exchange.tell(str(write()) if writer == exchange.rank else "")[writer])


@torch.no_grad()
def sample_one_token(learner: Learner, engine: Engine) -> tuple[list[Rollout], list[list[float]]]:
    """Let the base and every member sample one token, the likeliest, after the same few.

    Returns the samples, and the learner's log-probabilities of all tokens in their places.
    """
    model, adapters = learner.model, learner.adapters
    ids = tuple(i % model.config.vocab_size for i in range(1, _PROBE_TOKENS + 1))
    names = (None, *learner.members)
    sampled = engine.generate([Request(ids, name, 1) for name in names])
    device = next(model.parameters()).device
    with adapters.route([adapters.index(name) for name in names]):
        tokens = torch.tensor([ids] * len(names), device=device)
        logits = model(input_ids=tokens).logits[:, -1]
    tables: list[list[float]] = torch.log_softmax(logits.float(), dim=-1).tolist()
    return sampled, tables
