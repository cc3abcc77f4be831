import pytest
import torch
from torch import nn

from lora_evo.model.optimizer import MemberAdamW


def members(tiny, n=3):
    return [
        {
            name: nn.Parameter(tiny.numbers(10 * m + i, *shape))
            for i, (name, shape) in enumerate([("A", (3, 5)), ("B", (4, 3))])
        }
        for m in range(n)
    ]


def feed(tiny, parameters, seed, size=1.0):
    for i, p in enumerate(parameters.values()):
        p.grad = tiny.numbers(seed + i, *p.shape) * size


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("max_grad_norm", [0.0, 1.0, 100.0])
def test_equals_one_torch_adamw_per_member_each_with_its_own_steps(
    tiny, weight_decay, max_grad_norm
):
    own, reference = members(tiny), members(tiny)
    options = {"weight_decay": weight_decay}
    optimizer = MemberAdamW(own, beta2=0.95, max_grad_norm=max_grad_norm, **options)
    twins = [
        torch.optim.AdamW(list(p.values()), lr=0.01, betas=(0.9, 0.95), **options)
        for p in reference
    ]
    schedule = [(0, 1, 2), (1,), (1, 2), (0, 1, 2), (0,)]
    for t, taking_part in enumerate(schedule):
        for m in taking_part:
            size = 10.0 if m == 1 else 0.1
            feed(tiny, own[m], 100 * t + m, 1024.0 * size)
            feed(tiny, reference[m], 100 * t + m, size)
            wanted = torch.nn.utils.clip_grad_norm_(
                list(reference[m].values()), max_grad_norm or torch.inf
            )
            twins[m].step()
            norm, moved = optimizer.step(m, 0.01, 1024.0)
            assert norm == pytest.approx(float(wanted), rel=1e-6)
            assert moved
    for mine, theirs in zip(own, reference, strict=True):
        for name, p in mine.items():
            assert torch.allclose(p, theirs[name], rtol=1e-6, atol=1e-7)


def test_a_gradient_that_is_not_finite_moves_nothing(tiny):
    own = members(tiny)
    optimizer = MemberAdamW(own)
    feed(tiny, own[0], 1)
    own[0]["A"].grad[0, 0] = torch.nan
    before = {name: p.clone() for name, p in own[0].items()}
    norm, moved = optimizer.step(0, 0.1)
    assert not moved
    assert norm != norm
    assert all(torch.equal(p, before[name]) for name, p in own[0].items())
    assert optimizer.states[0].step == 0
