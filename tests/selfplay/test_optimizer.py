import pytest
import torch
from torch import nn

from selfplay.config import LearnerConfig
from selfplay.learning.optimizer import MemberAdamW


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
    options = LearnerConfig(
        learning_rate=0.01,
        adam_beta1=0.8,
        adam_beta2=0.95,
        adam_epsilon=1e-6,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
    )
    optimizer = MemberAdamW(own, options)
    twins = [
        torch.optim.AdamW(
            list(p.values()), lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=weight_decay
        )
        for p in reference
    ]
    schedule = [(0, 1, 2), (1,), (1, 2), (0, 1, 2), (0,)]
    for t, taking_part in enumerate(schedule):
        for m in taking_part:
            size = 10.0 if m == 1 else 0.1
            feed(tiny, own[m], 100 * t + m, size)
            feed(tiny, reference[m], 100 * t + m, size)
            wanted = torch.nn.utils.clip_grad_norm_(
                list(reference[m].values()), max_grad_norm or torch.inf
            )
            twins[m].step()
            norm, moved = optimizer.step(m)
            assert norm == pytest.approx(float(wanted), rel=1e-6)
            assert moved
    for mine, theirs in zip(own, reference, strict=True):
        for name, p in mine.items():
            assert torch.allclose(p, theirs[name], rtol=1e-6, atol=1e-7)


def test_a_gradient_that_is_not_finite_moves_nothing(tiny):
    own = members(tiny)
    optimizer = MemberAdamW(own, LearnerConfig(learning_rate=0.1))
    feed(tiny, own[0], 1)
    own[0]["A"].grad[0, 0] = torch.nan
    before = {name: p.clone() for name, p in own[0].items()}
    norm, moved = optimizer.step(0)
    assert not moved
    assert norm != norm
    assert all(torch.equal(p, before[name]) for name, p in own[0].items())
    assert optimizer.states[0].step == 0


def test_reset_forgets_one_member_only(tiny):
    own = members(tiny)
    optimizer = MemberAdamW(own, LearnerConfig())
    for m in range(3):
        feed(tiny, own[m], m)
        optimizer.step(m)
    optimizer.states[1].learning_rate = 7.0
    optimizer.reset(1)
    assert [s.step for s in optimizer.states] == [1, 0, 1]
    assert optimizer.states[1].learning_rate == LearnerConfig().learning_rate
    assert not any(t.any() for t in optimizer.states[1].exp_avg + optimizer.states[1].exp_avg_sq)
    assert all(t.any() for t in optimizer.states[2].exp_avg)


def test_learning_rate_is_per_member(tiny):
    own = members(tiny, 2)
    optimizer = MemberAdamW(own, LearnerConfig(learning_rate=0.1))
    optimizer.states[1].learning_rate = 0.0
    before = own[1]["A"].clone(), own[0]["A"].clone()
    for m in range(2):
        feed(tiny, own[m], m)
        optimizer.step(m)
    assert torch.equal(own[1]["A"], before[0])
    assert not torch.equal(own[0]["A"], before[1])


def test_a_member_goes_on_elsewhere(tiny):
    one, other = members(tiny), members(tiny)
    mine, theirs = (MemberAdamW(own, LearnerConfig()) for own in (one, other))
    feed(tiny, one[1], 4)
    mine.step(1)
    for p, q in zip(one[1].values(), other[2].values(), strict=True):
        q.data.copy_(p.data)
    theirs.load(2, mine.tensors(1), mine.scalars(1))
    for own, place, optimizer in ((one, 1, mine), (other, 2, theirs)):
        feed(tiny, own[place], 5)
        optimizer.step(place)
    assert all(torch.equal(one[1][k], other[2][k]) for k in one[1])
    assert theirs.scalars(2) == mine.scalars(1) != theirs.scalars(1)
