"""Learning rates, KL and entropy by role; rates over the run."""

import pytest
import torch

from lora_evo.model import Rollout
from selfplay.config import LearnerConfig
from selfplay.learning.learner import Learner, TrainingSample


def course(steps=11, **settings):
    config = LearnerConfig(**settings)
    return [config.schedule(step, steps) for step in range(1, steps + 1)]


def test_linear_falls_evenly_to_its_rate_and_stays_there_and_to_a_tenth_is_the_default():
    falling = {"lr_scheduler_type": "linear", "min_lr_rate": 0.3}
    assert course(**falling) == pytest.approx([1.0 - 0.07 * i for i in range(11)])
    assert LearnerConfig(**falling).schedule(50, 10) == pytest.approx(0.3)
    assert course(steps=1, lr_scheduler_type="linear") == [1.0]
    assert course() == pytest.approx([1.0 - 0.09 * i for i in range(11)])
    assert course(lr_scheduler_type="constant") == [1.0] * 11


def test_cosine_is_half_way_in_the_middle():
    found = course(lr_scheduler_type="cosine", min_lr_rate=0.2)
    assert (found[0], found[5], found[10]) == pytest.approx((1.0, 0.6, 0.2))


def test_warm_up_comes_first_and_ends_at_the_whole_rate():
    found = course(warmup_steps=3, min_lr_rate=0.0)
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


def test_frozen_members_stay_as_they_are_while_others_learn(tiny):
    config = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2, frozen=("t0",))
    one = Learner(tiny.qwen(), 0, tiny.members, config, seed=3, roles=["teacher"] * 3)
    rollout = Rollout("x", (3, 5), (4, 6), (-3.0, -3.0), "stop")
    before = [one.member_state(place).tensors for place in (0, 1)]
    one.update([TrainingSample(name, rollout, 1.0) for name in ("t0", "t1")])
    after = [one.member_state(place).tensors for place in (0, 1)]
    weights = [key for key in before[0] if key.startswith("weights/")]
    assert all(torch.equal(before[0][key], after[0][key]) for key in weights)
    assert any(not torch.equal(before[1][key], after[1][key]) for key in weights)


def test_where_a_schedule_has_come_to_0_no_member_is_in_a_pass(tiny):
    config = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2, min_lr_rate=0.0)
    one = Learner(tiny.qwen(), 0, tiny.members, config, seed=3)
    samples = [TrainingSample("t0", Rollout("x", (3, 5), (4, 6), (-3.0, -3.0), "stop"), 1.0)]
    assert [one.update(samples, config.schedule(s, 2))["t0"].stepped for s in (1, 2)] == [
        True,
        False,
    ]


def test_a_divergence_is_the_mean_over_the_tokens_that_it_is_taken_of(tiny):
    rollout = Rollout("x", (3, 5), (4, 6), (-3.0, -3.0), "stop")

    def divergence(phases, **settings):
        config = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2, beta=0.1, **settings)
        one = Learner(tiny.qwen(), 0, tiny.members, config, seed=3)
        tiny.shake(one.adapters)
        return one.update([TrainingSample("t0", rollout, 1.0, phase=p) for p in phases])["t0"].kl

    kl = divergence(["solve"])
    assert kl > 0.0
    assert divergence(["solve", "propose"]) == pytest.approx(kl, rel=1e-3)
    assert divergence(["solve", "propose"], teacher_beta=0.0) == pytest.approx(kl, rel=1e-3)


@pytest.mark.parametrize("name", ["beta", "entropy_coef"])
def test_kl_and_entropy_of_proposals_alone_leave_solvers_as_they_were(tiny, name):
    """With a coefficient for each phase, a member moves as with that coefficient for both."""

    def after(phase, **settings):
        config = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2, **settings)
        one = Learner(tiny.qwen(), 0, tiny.members, config, seed=3)
        samples = [
            TrainingSample(who, Rollout("x", (3, 5), (4, 6), (-3.0, -3.0), "stop"), 1.0, phase=p)
            for who, p in (("t0", "propose"), ("s0", "solve"))
        ]
        for _ in range(3):
            stats = one.update(samples)
        who = "t0" if phase == "propose" else "s0"
        return one.member_state(one.members.index(who)).tensors, stats[who].kl

    split = {f"teacher_{name}": 0.5, name: 0.0}
    for phase, both in (("propose", 0.5), ("solve", 0.0)):
        (found, kl), (wanted, whole_kl) = after(phase, **split), after(phase, **{name: both})
        assert all(torch.equal(tensor, wanted[key]) for key, tensor in found.items())
        assert kl == whole_kl
    moved, _ = after("propose", **split)
    plain, _ = after("propose")
    assert any(not torch.equal(tensor, plain[key]) for key, tensor in moved.items())
    assert LearnerConfig(**{name: 0.1}).beta_of("propose") == (0.1 if name == "beta" else 0.0)
