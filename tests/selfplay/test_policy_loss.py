import pytest
import torch

from selfplay.config import LearnerConfig
from selfplay.learning.batch import token_weights
from selfplay.learning.loss import importance_weights, token_losses


def test_masked_completions_alone_weigh_nothing():
    options = LearnerConfig(mask_truncated_completions=True)
    assert token_weights([0, 0], [3, 0], [True, False], options, 256) == [0.0, 0.0]


def losses(now, old, rollout, advantages, **options):
    tensors = [torch.tensor(v) for v in (now, old, rollout, advantages)]
    tensors[0].requires_grad_()
    return tensors[0], token_losses(*tensors, LearnerConfig(**options))


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("token_truncate", [2.0, 0.5, 1.5, 0.9, 1.0, 0.5]),
        ("token_mask", [0.0, 0.0, 1.5, 0.9, 1.0, 0.0]),
        ("sequence_truncate", [1.0, 1.0, 1.35, 1.35, 0.5, 0.5]),
        ("sequence_mask", [1.0, 1.0, 1.35, 1.35, 0.0, 0.0]),
    ],
)
def test_importance_weights_are_of_tokens_or_completions(mode, wanted):
    ratios = torch.tensor([4.0, 0.25, 1.5, 0.9, 1.0, 0.3])
    options = LearnerConfig(importance_sampling_mode=mode, importance_sampling_clip_min=0.5)
    found, outside = importance_weights(ratios.log(), [2, 2, 2], options)
    assert found.tolist() == pytest.approx(wanted)
    beyond = [1, 1, 0, 0, 0, 1] if mode.startswith("token") else [0, 0, 0, 0, 1, 1]
    assert outside.tolist() == list(map(bool, beyond))


def test_clipping_cuts_the_gradient_on_the_profitable_side_only():
    ratio = torch.tensor([1.5, 0.5, 1.5, 0.5, 1.1]).log().tolist()
    zeros = [0.0] * 5
    now, parts = losses(
        ratio, zeros, zeros, [1.0, 1.0, -1.0, -1.0, 1.0], epsilon=0.2, epsilon_high=0.28
    )
    parts.loss.sum().backward()
    assert parts.loss.tolist() == pytest.approx([-1.28, -0.5, 1.5, 0.8, -1.1])
    assert parts.clipped.tolist() == [True, False, False, True, False]
    assert now.grad.tolist() == pytest.approx([0.0, -0.5, 1.5, 0.0, -1.1])


def test_absurd_log_ratios_stay_finite():
    now, parts = losses([0.0, -1e4], [-1e4, 0.0], [-2e4, 3e4], [-1.0, 1.0])
    parts.loss.sum().backward()
    assert torch.isfinite(parts.loss).all()
    assert torch.isfinite(now.grad).all()


@pytest.mark.parametrize("corrected", [False, True])
def test_the_kl_term_has_the_value_and_the_gradient_that_it_says(corrected):
    logits = torch.tensor([0.3, -1.2, 2.0, 0.1], dtype=torch.float64, requires_grad=True)
    base = torch.tensor([1.0, 0.5, -0.3, 0.2], dtype=torch.float64)
    p, q = logits.log_softmax(0), base.log_softmax(0)
    old, options = p.detach(), LearnerConfig(use_bias_correction_kl=corrected)
    parts = token_losses(p, old, old, 0 * old, options, ref_logprobs=q, beta=1)
    forward, backward = (p.exp() * (p - q)).sum(), (q.exp() * (q - p)).sum()
    assert parts.kl @ old.exp() == pytest.approx(forward.item())
    (found,) = torch.autograd.grad((old.exp() * parts.loss).sum(), logits, retain_graph=True)
    (wanted,) = torch.autograd.grad(forward if corrected else backward, logits)
    assert found.tolist() == pytest.approx(wanted.tolist())


@pytest.mark.parametrize("away", [9.0, 9.99, 10.01, 20.0, 21.0, 1e4, -20.0, -21.0, -1e4])
@pytest.mark.parametrize("term", ["kl", "surrogate"])
def test_gradients_have_no_step_and_no_end_at_a_limit(term, away):
    def gradient(x):
        p = torch.tensor([-x], dtype=torch.float64, requires_grad=True)
        zero = torch.zeros(1, dtype=torch.float64)
        if term == "kl":
            parts = token_losses(
                p, p.detach(), zero, zero, LearnerConfig(), ref_logprobs=zero, beta=1
            )
        else:
            parts = token_losses(-p, zero, zero, zero - 1, LearnerConfig())
        parts.loss.sum().backward()
        assert torch.isfinite(parts.loss).all()
        return abs(float(p.grad))

    here, near = gradient(away), gradient(away + 0.1)
    assert near == pytest.approx(here, rel=0.2)
    assert here < 3e4
    if away > 0 or term == "kl":
        assert here > 0.9  # none is lost
