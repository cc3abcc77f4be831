"""Learning rates by role and over the run."""

import pytest
import torch

from lora_evo.model import Rollout
from selfplay.config import LearnerConfig
from selfplay.learning.learner import Learner, TrainingSample


def course(steps=11, **settings):
    config = LearnerConfig(**settings)
    return [config.schedule(step, steps) for step in range(1, steps + 1)]


def test_linear_falls_evenly_to_its_rate_and_stays_there_and_constant_is_the_default():
    falling = {"lr_scheduler_type": "linear", "min_lr_rate": 0.3}
    assert course(**falling) == pytest.approx([1.0 - 0.07 * i for i in range(11)])
    assert LearnerConfig(**falling).schedule(50, 10) == pytest.approx(0.3)
    assert course(steps=1, lr_scheduler_type="linear") == [1.0]
    assert course() == [1.0] * 11


def test_cosine_is_half_way_in_the_middle():
    found = course(lr_scheduler_type="cosine", min_lr_rate=0.2)
    assert (found[0], found[5], found[10]) == pytest.approx((1.0, 0.6, 0.2))


def test_warm_up_comes_first_and_ends_at_the_whole_rate():
    found = course(lr_scheduler_type="linear", warmup_steps=3)
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert found[-1] == pytest.approx(0.0)


def test_teachers_have_a_rate_of_their_own():
    config = LearnerConfig(learning_rate=1.0, teacher_learning_rate=0.25)
    assert [config.learning_rate_of(r) for r in ("teacher", "student", "agent")] == [0.25, 1.0, 1.0]
    assert LearnerConfig(learning_rate=1.0).learning_rate_of("teacher") == 1.0
    assert LearnerConfig(teacher_learning_rate=0.0).learning_rate_of("teacher") == 0.0


def test_role_and_factor_scale_the_step(tiny):
    """Adam's first step has the size of its rate, whatever the gradient."""
    config = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2, teacher_learning_rate=2e-3)
    one = Learner(
        tiny.qwen(), 0, tiny.members, config, seed=3, roles=["teacher", "teacher", "student"]
    )
    samples = [
        TrainingSample(name, Rollout(name, (3, 5), (4, 6), (-3.0, -3.0), "stop"), 1.0)
        for name in ("t0", "s0")
    ]
    before = [[p.detach().clone() for p in one.adapters.parameters_of(m).values()] for m in (0, 2)]
    one.update(samples, 0.5)
    for (member, rate), old in zip(((0, 1e-3), (2, 5e-3)), before, strict=True):
        steps = [
            float((p.detach() - q).abs().max())
            for p, q in zip(one.adapters.parameters_of(member).values(), old, strict=True)
        ]
        assert max(steps) == pytest.approx(rate, rel=0.02)
        assert all(torch.isfinite(p).all() for p in one.adapters.parameters_of(member).values())
