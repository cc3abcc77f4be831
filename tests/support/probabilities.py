"""What samples are compared with: a plain forward pass."""

import torch

ROUNDING = 1e-4
"""How far log-probabilities or logits of small models in float32 may be apart when their sums are
taken in another order, as kernels of other processors do: some thirty roundings one after another,
each by 1.2e-7 of numbers up to 30. Other weights are at least a hundred times as far."""


def logprobs(model, prompt_ids, completion_ids, temperature=1.0):
    """Log-probabilities [tokens] of a completion after its prompt, without a batch or a cache."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*prompt_ids, *completion_ids]], device=device)
    logits = model(input_ids=ids).logits[0, len(prompt_ids) - 1 : -1]
    table = torch.log_softmax(logits.float() / temperature, -1)
    return table.gather(1, torch.tensor(completion_ids, device=device)[:, None])[:, 0]
