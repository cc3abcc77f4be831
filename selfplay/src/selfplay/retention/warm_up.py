"""Supervised steps on worked solutions: how a parent becomes worth more than a fresh adapter."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from selfplay.learning.learner import Learner
from selfplay.nano.examples import Example


def supervised_step(
    learner: Learner, tokenizer: Any, place: int, examples: Sequence[Example]
) -> float:
    """One AdamW step of one member on the cross-entropy of the completions; returns it (nats)."""
    pairs = [
        (
            tokenizer.encode(e.prompt, add_special_tokens=False),
            tokenizer.encode(e.completion, add_special_tokens=False),
        )
        for e in examples
    ]
    longest = max(len(prompt) + len(completion) for prompt, completion in pairs)
    ids = torch.zeros(len(pairs), longest, dtype=torch.long)
    targets = torch.full((len(pairs), longest), -100)
    for row, (prompt, completion) in enumerate(pairs):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        targets[row, len(prompt) - 1 : end - 1] = torch.tensor(completion)
    device = next(learner.model.parameters()).device
    learner.optimizer.zero_grad()
    with learner.adapters.route([place] * len(pairs)):
        hidden = learner.model.model(input_ids=ids.to(device), use_cache=False).last_hidden_state
    chosen = targets.to(device) != -100
    logits = learner.model.lm_head(hidden[chosen]).float()
    loss = F.cross_entropy(logits, targets.to(device)[chosen])
    loss.backward()  # type: ignore[no-untyped-call]
    learner.optimizer.step(place)
    learner.optimizer.zero_grad()
    return float(loss.detach())
