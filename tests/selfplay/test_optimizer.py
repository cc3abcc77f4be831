import json
import math
import statistics

import pytest
import torch
from torch import nn

from selfplay.config import LearnerConfig
from selfplay.learning.optimizer import NORM_WARMUP, MemberAdamW


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


def test_a_restored_member_moves_at_the_rate_of_the_configuration(tiny):
    own = members(tiny)
    first = MemberAdamW(own, LearnerConfig(learning_rate=0.0))
    feed(tiny, own[0], 1)
    before = {name: p.clone() for name, p in own[0].items()}
    first.step(0)
    assert all(torch.equal(p, before[name]) for name, p in own[0].items())
    second = MemberAdamW(own, LearnerConfig(learning_rate=0.1))
    second.load(0, first.tensors(0), first.scalars(0) | {"learning_rate": 0.0})
    second.step(0)
    assert second.states[0].step == 2
    assert not any(torch.equal(p, before[name]) for name, p in own[0].items())


def sizes(count):
    """Norms of gradients as they come, around 1."""
    return [1.0 + 0.1 * math.sin(7.0 * i) for i in range(count)]


def step_of_norm(optimizer, own, member, norm):
    """Let a member step by a gradient of this norm; return the norm that moved it."""
    numbers = [torch.ones_like(p) for p in own[member].values()]
    whole = math.sqrt(sum(t.numel() for t in numbers))
    for p, ones in zip(own[member].values(), numbers, strict=True):
        p.grad = ones * (norm / whole)
    assert optimizer.step(member)[0] == pytest.approx(norm, rel=1e-5)
    return float(torch.stack([m.norm() for m in optimizer.states[member].exp_avg]).norm())


def relative_clip(tiny, **changes):
    """Members, and an optimiser whose first moment is the clipped gradient itself."""
    own = members(tiny)
    options = {"adam_beta1": 0.0, "max_grad_norm": 0.0, "max_grad_norm_z": 2.5} | changes
    return own, MemberAdamW(own, LearnerConfig(learning_rate=0.01, **options))


def test_a_spike_comes_down_to_what_the_members_own_norms_allow(tiny):
    own, optimizer = relative_clip(tiny)
    norms = sizes(NORM_WARMUP)
    for norm in norms:
        assert step_of_norm(optimizer, own, 0, norm) == pytest.approx(norm, rel=1e-5)
    allowed = statistics.fmean(norms) + 2.5 * statistics.pstdev(norms)
    assert step_of_norm(optimizer, own, 0, 50.0) == pytest.approx(allowed, rel=1e-5)
    # A usual norm is none of its business, nor is a member that it has not watched for long enough.
    assert step_of_norm(optimizer, own, 0, 1.05) == pytest.approx(1.05, rel=1e-5)
    assert step_of_norm(optimizer, own, 1, 50.0) == pytest.approx(50.0, rel=1e-5)


def test_a_lasting_change_of_the_norm_is_let_through_in_the_end(tiny):
    own, optimizer = relative_clip(tiny)
    moved = [step_of_norm(optimizer, own, 0, norm) for norm in [*sizes(40), *[3.0] * 100]]
    assert moved[40] < 1.5
    assert moved[-1] == pytest.approx(3.0, rel=1e-5)


def test_without_it_or_above_it_the_fixed_clip_counts(tiny):
    for changes in ({"max_grad_norm_z": 0.0, "max_grad_norm": 2.0}, {"max_grad_norm": 0.5}):
        own, optimizer = relative_clip(tiny, **changes)
        moved = [step_of_norm(optimizer, own, 0, norm) for norm in [*sizes(30), 50.0]]
        assert moved[-1] == pytest.approx(changes["max_grad_norm"], rel=1e-4)


def test_a_saved_member_clips_as_it_would_have_and_a_new_one_starts_anew(tiny):
    own, optimizer = relative_clip(tiny)
    again, restored = relative_clip(tiny)
    for norm in sizes(40):
        step_of_norm(optimizer, own, 0, norm)
    scalars = json.loads(json.dumps(optimizer.scalars(0)))
    restored.load(0, {k: t.clone() for k, t in optimizer.tensors(0).items()}, scalars)
    for norm in (20.0, 1.3, 0.9, 8.0):
        moved = step_of_norm(optimizer, own, 0, norm)
        assert moved == step_of_norm(restored, again, 0, norm)
        assert moved < 1.5
    optimizer.reset(0)
    assert step_of_norm(optimizer, own, 0, 20.0) == pytest.approx(20.0, rel=1e-5)
