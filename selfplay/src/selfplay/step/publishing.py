"""Members from the learner to an engine of its own: what changed, and whether it arrived."""

from evals.engine.generation import StackedEngine
from evals.engine.rollout import TokenRequest
from lora_evo import adapter_hash
from selfplay.errors import SelfplayError
from selfplay.run.run import Run

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest difference of the log-probability of one token that arithmetic explains, by the base's
number type: about 5 to 100 times what was measured with vLLM on a CPU (float32 1e-5, bfloat16
0.1)."""
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


def check_agreement(run: Run) -> None:
    """The engine gives a token of every member, and of the base, the learner's log-probability."""
    vocabulary = run.learner.model.config.vocab_size
    ids = tuple(i % vocabulary for i in range(1, _PROBE_TOKENS + 1))
    requests = [
        TokenRequest(name, ids, 1, temperature=0.0) for name in (None, *run.learner.members)
    ]
    learner = StackedEngine(run.learner.adapters, run.engine.tokenizer)
    tolerance = TOLERANCE[run.config.dtype]
    for one, other in zip(run.engine.rollouts(requests), learner.rollouts(requests), strict=True):
        difference = abs(one.logprobs[0] - other.logprobs[0])
        if not difference <= tolerance:
            raise SelfplayError(
                f"{one.adapter or 'the base'} in the engine is not the learner's: log-probability "
                f"{one.logprobs[0]:.4f}, expected {other.logprobs[0]:.4f} within {tolerance}; go "
                "on with `selfplay resume`, and with --engine hf if it comes back"
            )
