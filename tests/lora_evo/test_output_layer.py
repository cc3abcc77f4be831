"""Log-probabilities in chunks against the whole table."""

from types import SimpleNamespace

import pytest
import torch
from probabilities import ROUNDING
from small_models import small_model
from tiny_families import tiny_model
from torch import nn

from lora_evo.model.output_layer import OutputLayer

TOKENS, SIZE, VOCABULARY = 23, 16, 70


def layer(tiny, chunk, bias=False, dtype=torch.float32, **options):
    head = nn.Linear(SIZE, VOCABULARY, bias=bias).requires_grad_(False)
    head.weight.copy_(tiny.numbers(1, VOCABULARY, SIZE))
    if bias:
        head.bias.copy_(tiny.numbers(2, VOCABULARY))
    return OutputLayer(head.to(dtype), chunk, **options)


def scored(tiny, output, entropy):
    """Scores of random hidden states, and their gradients under random weights."""
    dtype = output.head.weight.dtype
    hidden = tiny.numbers(3, TOKENS, SIZE).to(dtype).requires_grad_()
    targets = tiny.numbers(4, TOKENS).mul(1000).long().abs() % VOCABULARY
    found = output.scores(hidden, targets, entropy=entropy)
    sum((c * tiny.numbers(5 + i, TOKENS)).sum() for i, c in enumerate(found)).backward()
    return found, hidden.grad


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize(
    ("chunk", "options"),
    [
        (1, {"softcap": 2.0}),
        (7, {"bias": True, "temperature": 0.7}),
        (7, {"scale": 0.25, "softcap": 5.0}),
        (22, {}),
    ],
    ids=str,
)
def test_chunks_equal_the_whole_table(tiny, chunk, entropy, options):
    whole, gradient = scored(tiny, layer(tiny, TOKENS, **options), entropy)
    parts, other = scored(tiny, layer(tiny, chunk, **options), entropy)
    assert len(parts) == len(whole) == 1 + entropy
    for one, another in zip(whole, parts, strict=True):
        assert torch.allclose(one, another, atol=1e-6, rtol=1e-6)
    assert torch.allclose(gradient, other, atol=2e-6 * float(gradient.abs().max()))
    with torch.no_grad():
        hidden = tiny.numbers(3, TOKENS, SIZE)
        targets = tiny.numbers(4, TOKENS).mul(1000).long().abs() % VOCABULARY
        frozen = layer(tiny, chunk, **options).scores(hidden, targets, entropy=entropy)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(whole, frozen, strict=True))


def test_values_are_those_of_a_categorical_distribution(tiny):
    output = layer(tiny, 5, temperature=0.7)
    (logprobs, entropies), _ = scored(tiny, output, True)
    logits = tiny.numbers(3, TOKENS, SIZE) @ output.head.weight.T / 0.7
    wanted = torch.distributions.Categorical(logits=logits)
    targets = tiny.numbers(4, TOKENS).mul(1000).long().abs() % VOCABULARY
    assert torch.allclose(logprobs, wanted.log_prob(targets), atol=ROUNDING)
    assert torch.allclose(entropies, wanted.entropy(), atol=ROUNDING)


def test_factors_of_logits_are_found():
    assert OutputLayer.of(small_model("granite", logits_scaling=8.0)).scale == 0.125
    assert OutputLayer.of(small_model("cohere", logit_scale=0.25)).scale == 0.25


def test_a_model_with_logits_of_its_own_is_refused():
    model = tiny_model("llama")
    forward = model.forward
    model.forward = lambda **given: SimpleNamespace(logits=forward(**given).logits * 1.01)
    with pytest.raises(ValueError, match="a llama does more to its logits than the learner knows"):
        OutputLayer.of(model)
    model.lm_head = nn.Sequential(model.lm_head)
    with pytest.raises(ValueError, match="output layer of this llama is a Sequential"):
        OutputLayer.of(model)
