"""Members from the learner to an engine of its own: what changed, and whether it arrived."""

import torch

from evals.engine.rollout import TokenRequest
from lora_evo import adapter_hash
from selfplay.errors import SelfplayError
from selfplay.run.run import Run

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest difference of the log-probability of one token that arithmetic explains, by the base's
number type: 5 to 100 times what was measured with vLLM on a CPU (float32 1e-5, bfloat16 0.1)."""
_PROBE_TOKENS = 8


def publish(run: Run, step: int) -> None:
    """Put every member that changed since the last time into the engine, as of this step.

    Members that left are dropped first. An engine that shares the learner's parameters needs
    nothing. Raises SelfplayError when the engine then does not say what the learner says.
    """
    if run.engine.shares_parameters:
        return
    for name in list(run.engine.versions):
        if name not in run.learner.members:
            run.engine.drop_adapter(name)
            run.published.pop(name, None)
    for member in run.learner.members:
        adapter = run.learner.export(member)
        content = adapter_hash(adapter)
        if run.published.get(member) != content:
            run.engine.put_adapter(member, step, adapter)
            run.published[member] = content
    check_agreement(run)


@torch.no_grad()
def check_agreement(run: Run) -> None:
    """The engine gives a token of every member, and of the base, the learner's log-probability.

    Raises SelfplayError when it does not.
    """
    model, adapters = run.learner.model, run.learner.adapters
    ids = tuple(i % model.config.vocab_size for i in range(1, _PROBE_TOKENS + 1))
    names = (None, *run.learner.members)
    sampled = run.engine.rollouts([TokenRequest(name, ids, 1, temperature=0.0) for name in names])
    device = next(model.parameters()).device
    with adapters.route([adapters.index(name) for name in names]):
        logits = model(input_ids=torch.tensor([ids] * len(names), device=device)).logits[:, -1]
    expected = torch.log_softmax(logits.float(), dim=-1).tolist()
    tolerance = TOLERANCE[run.config.dtype]
    for rollout, table in zip(sampled, expected, strict=True):
        found, own = rollout.logprobs[0], table[rollout.completion_ids[0]]
        if not abs(found - own) <= tolerance:
            raise SelfplayError(
                f"{rollout.adapter or 'the base'} in the engine is not the learner's: "
                f"log-probability {found:.4f} of a token, expected {own:.4f} within {tolerance}; "
                "go on with `selfplay resume`, and with --engine hf if it comes back"
            )
