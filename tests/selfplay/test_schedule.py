"""Learning rates, KL and entropy by role; rates over the run."""

import pytest

from learners import equal, learner, weights
from lora_evo.model import Rollout
from selfplay.config import LearnerConfig
from selfplay.errors import SelfplayError
from selfplay.learning.learner import TrainingSample


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


def once(*whom, phases=("solve",)):
    """Samples of the same tokens, one of each member and phase."""
    text = Rollout("x", (3, 5), (4, 6), (-3.0, -3.0), "stop")
    return [TrainingSample(who, text, 1.0, phase=p) for who in whom for p in phases]


def test_role_and_factor_scale_the_step(tiny):
    """Adam's first step has the size of its rate, whatever the gradient."""
    roles = {"roles": ["teacher", "teacher", "student"]}
    one = learner(tiny, None, roles, teacher_learning_rate=2e-3)
    before = weights(one)
    one.update(once("t0", "s0"), 0.5)
    after = weights(one)
    for member, rate in (("t0", 1e-3), ("t1", 0.0), ("s0", 5e-3)):
        steps = [float((after[k] - before[k]).abs().max()) for k in after if k[:2] == member]
        assert max(steps) == pytest.approx(rate, rel=0.02)


def test_members_may_have_rates_of_their_own(tiny):
    one = learner(tiny, frozen=("t1",))
    before = weights(one)
    given = {"t0": 4e-3, "t1": 1.0}
    stats = one.update(once("t0", "t1", "s0"), 0.5, rates=given)
    after = weights(one)
    for member, rate in (("t0", 2e-3), ("t1", 0.0), ("s0", 5e-3)):
        steps = [float((after[k] - before[k]).abs().max()) for k in after if k[:2] == member]
        assert max(steps) == pytest.approx(rate, rel=0.02)
        assert stats[member].learning_rate == rate
    for name, rate in (("s9", 1.0), ("s0", -1.0), ("s0", float("nan"))):
        with pytest.raises(SelfplayError, match=f"rates has {rate} for '{name}'; expected a num"):
            one.update(once("t0"), rates={name: rate})


def test_where_a_schedule_has_come_to_0_no_member_is_in_a_pass(tiny):
    one = learner(tiny, min_lr_rate=0.0)
    stats = [one.update(once("t0"), one.config.schedule(s, 2))["t0"] for s in (1, 2)]
    assert [row.stepped for row in stats] == [True, False]


def test_a_divergence_is_the_mean_over_the_tokens_that_it_is_taken_of(tiny):
    def divergence(*phases, **settings):
        one = learner(tiny, beta=0.1, **settings)
        return one.update(once("t0", phases=phases))["t0"].kl

    kl = divergence("solve")
    assert kl > 0.0
    assert divergence("solve", "propose") == pytest.approx(kl, rel=1e-3)
    assert divergence("solve", "propose", teacher_beta=0.0) == pytest.approx(kl, rel=1e-3)


@pytest.mark.parametrize("name", ["beta", "entropy_coef"])
def test_kl_and_entropy_of_proposals_alone_leave_solvers_as_they_were(tiny, name):
    """With a coefficient for each phase, a member moves as with that coefficient for both."""

    def after(who, **settings):
        one = learner(tiny, **settings)
        for _ in range(3):
            stats = one.update(once("t0", phases=["propose"]) + once("s0"))
        return weights(one, who), stats[who].kl

    split = {f"teacher_{name}": 0.5, name: 0.0}
    for who, both in (("t0", 0.5), ("s0", 0.0)):
        (found, kl), (wanted, whole_kl) = after(who, **split), after(who, **{name: both})
        assert equal(found, wanted)
        assert kl == whole_kl
    assert not equal(after("t0", **split)[0], after("t0")[0])
    assert LearnerConfig(**{name: 0.1}).beta_of("propose") == (0.1 if name == "beta" else 0.0)
