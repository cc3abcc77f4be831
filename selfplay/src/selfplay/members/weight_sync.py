"""Keep the adapters that an engine samples with equal to those that the learner trains."""

import torch

from lora_evo import adapter_hash
from lora_evo.model import Engine, Request
from selfplay.errors import SelfplayError
from selfplay.learning.learner import Learner

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.02}
"""Largest difference of log-probabilities (nats, the mean over the tokens of a probe) that rounding
explains, by the base's dtype.

Measured with vLLM on a CPU: nano 0.018 in bfloat16 and below 1e-5 in float32; members moved far
from it up to 0.06 and 7e-4; weights of such a member that did not arrive usually 0.1 to 20. A
single token may differ by half a nat in bfloat16.
"""
_PROMPTS, _PROMPT_TOKENS = 16, 8
"""Number of prompts of a probe, and tokens of each; one token is sampled after each prompt."""


def send(learner: Learner, engine: Engine, sent: dict[str, str], dtype: str, step: int) -> None:
    """Put the changed members into an engine as of this step, and drop the others from it.

    sent: content hash of each member in the engine; updated. dtype: of the base. Does nothing for
    an engine that shares the learner's parameters. Raises SelfplayError if the probabilities of
    engine and learner then differ, for the base or a member.
    """
    if engine.shares_parameters:
        return
    for name in [name for name in engine.versions if name not in learner.members]:
        engine.drop_adapter(name)
        sent.pop(name, None)
    for member in learner.members:
        adapter = learner.export(member)
        content = adapter_hash(adapter)
        if sent.get(member) != content:
            engine.put_adapter(member, step, adapter)
            sent[member] = content
    for who, gap in probe(learner, engine).items():
        if not gap <= TOLERANCE[dtype]:
            raise SelfplayError(
                f"{who or 'the base'} in the engine is not the learner's: the log-probabilities of "
                f"{_PROMPTS} tokens are {gap:.4f} apart in the mean, expected {TOLERANCE[dtype]} "
                "at most; continue with `selfplay resume`, and with --engine hf if it comes back"
            )


@torch.no_grad()
def probe(learner: Learner, engine: Engine) -> dict[str | None, float]:
    """Return the mean difference between engine and learner for the base (None) and each member.

    The engine samples the most likely token after each of a few prompts; log-probabilities are
    compared, in nats. NaN in both counts as equal, since the update skips such a member.
    """
    model, adapters = learner.model, learner.adapters
    names, size = (None, *learner.members), model.config.get_text_config().vocab_size
    prompts = (torch.arange(1, 1 + _PROMPTS * _PROMPT_TOKENS) % size).view(_PROMPTS, -1)
    requests = [Request(tuple(ids), name, 1) for ids in prompts.tolist() for name in names]
    _, rollouts = zip(*sorted(engine.stream(requests)), strict=True)  # which takes NaN, too
    sampled = torch.tensor([rollout.logprobs[0] for rollout in rollouts])
    tokens = torch.tensor([rollout.completion_ids[0] for rollout in rollouts])
    expected = []
    with adapters.route([adapters.index(name) for name in names]):
        # One prompt at a time: the table of logits [members, tokens, vocabulary] stays small.
        for prompt, ids in zip(prompts, tokens.view(_PROMPTS, -1, 1), strict=True):
            rows = prompt.expand(len(names), -1).to(adapters.device)
            logits = model(input_ids=rows).logits[:, -1]
            table = torch.log_softmax(logits.float(), -1).cpu()
            expected.append(table.gather(1, ids)[:, 0])
    learned = torch.cat(expected)
    gaps = (sampled - learned).abs().masked_fill(sampled.isnan() & learned.isnan(), 0.0)
    return dict(zip(names, gaps.view(_PROMPTS, -1).mean(0).tolist(), strict=True))
