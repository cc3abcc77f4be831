"""What samples are compared with: a plain forward pass."""

import torch


def logprobs(model, prompt_ids, completion_ids, temperature=1.0):
    """Log-probabilities [tokens] of a completion after its prompt, without a batch or a cache."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*prompt_ids, *completion_ids]], device=device)
    logits = model(input_ids=ids).logits[0, len(prompt_ids) - 1 : -1]
    table = torch.log_softmax(logits.float() / temperature, -1)
    return table.gather(1, torch.tensor(completion_ids, device=device)[:, None])[:, 0]
