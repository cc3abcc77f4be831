"""The noise scale against gradients whose signal and noise are known."""

import dataclasses

import pytest
import torch

from selfplay.config import LearnerConfig
from selfplay.learning.batch import Row, TrainingSample, batch_rows
from selfplay.learning.learner import Learner
from selfplay.learning.statistics import GradientNoise, NoiseAverage, gradient_noise

SIZE = 200
SIGNAL, NOISE = 0.3, 2.0
"""Squared length of the true gradient; variance of one sample's gradient, all entries summed."""


def row(group, weight):
    return Row(TrainingSample("s0", (1,), (2, 3), (-1.0, -1.0), 1.0), 0, weight, group)


def estimate(seed, sizes):
    """The estimates from groups of these sizes, of samples with equal weights."""
    source = torch.Generator().manual_seed(seed)
    count = sum(sizes)
    truth = torch.full((SIZE,), (SIGNAL / SIZE) ** 0.5)
    gradients, rows = {}, []
    for group, size in enumerate(sizes):
        noise = torch.randn(size, SIZE, generator=source) * (NOISE / SIZE) ** 0.5
        gradients[group] = [(truth + noise).sum(0) / count]
        rows += [row(group, 0.5 / count)] * size
    return gradient_noise(gradients, rows)


@pytest.mark.parametrize("sizes", [(8, 8), (4, 4, 4, 4), (1, 3, 12), (5, 5, 5, 5)])
def test_signal_and_variance_are_estimated_without_bias(sizes):
    found = [estimate(seed, sizes) for seed in range(400)]
    variances = torch.tensor([n.variance for n in found])
    signals = torch.tensor([n.signal for n in found])
    for values, truth in ((variances, NOISE), (signals, SIGNAL)):
        error = float(values.std()) / 20
        assert float(values.mean()) == pytest.approx(truth, abs=4 * error)
        assert error < 0.1 * truth


def test_a_group_without_gradient_counts_as_zeros():
    """All samples of a group without advantage: its gradient is 0, and says something."""
    found = gradient_noise({0: [torch.tensor([1.0, 0.0])]}, [row(0, 0.25), row(1, 0.25)])
    # Means 2 and 0 around 1, half of the batch each: 2 * (1/2 + 1/2) / 1.
    assert found == GradientNoise(pytest.approx(2.0), pytest.approx(0.0))


def test_one_group_gives_no_estimate():
    assert gradient_noise({0: [torch.ones(2)]}, [row(0, 0.5), row(0, 0.5)]) is None


def test_the_average_is_of_parts_and_no_signal_is_none():
    average = NoiseAverage()
    average.add(GradientNoise(10.0, -1.0))
    assert average.scale is None
    average.add(GradientNoise(10.0, 3.0))
    assert average.scale == pytest.approx((0.9 * 1.0 + 1.0) / (0.9 * -0.1 + 0.3))


def test_tasks_are_dealt_whole_and_in_turn(tiny):
    adapters = tiny.stacked()[1]
    samples = [
        TrainingSample("s0", (1,), (2,), (-1.0,), 1.0, role="solve", task=task)
        for task in ("a", "a", "b", "c", "b", "d", "e")
    ]
    rows = batch_rows(samples, adapters, LearnerConfig(noise_groups=3))
    assert [r.group for r in rows] == [0, 0, 1, 2, 1, 0, 1]
    assert sum(r.share for r in rows) == pytest.approx(1.0)


def learner(tiny, **changes):
    config = dataclasses.replace(LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2), **changes)
    found = Learner(tiny.qwen(), 0, tiny.members, config, seed=3, base_model="nano")
    tiny.shake(found.adapters)
    return found


def samples_of(count=12):
    return [
        TrainingSample(
            ("t0", "s0")[i % 2],
            (3, 5),
            (4 + i, 6, 7 + i),
            (-3.0, -3.0, -3.0),
            (-1.0, 0.0, 0.5)[i % 3],
            role=("propose", "solve")[i % 2],
            task=str(i // 2),
        )
        for i in range(count)
    ]


def moved(one, **changes):
    one.update([dataclasses.replace(s, **changes) for s in samples_of()])
    return [p.detach().clone() for p in one.adapters.parameters_of(2).values()]


def test_measuring_the_noise_changes_no_update(tiny):
    # A large epsilon: Adam would blow up the rounding of gradients near 0.
    with_noise = moved(learner(tiny, adam_epsilon=1e-2))
    without = moved(learner(tiny, adam_epsilon=1e-2, noise_groups=0))
    for one, other in zip(with_noise, without, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_scale_is_given_by_role_and_continues_after_a_restore(tiny):
    one, two = learner(tiny), learner(tiny)
    first = one.update(samples_of())
    assert set(first["t0"].noise_scale) == {"propose"}
    assert set(first["s0"].noise_scale) == {"solve"}
    two.load_state_dict(*one.state_dict())
    assert one.update(samples_of()) == two.update(samples_of())
    one.replace("s0", one.export("s0"), "s1")
    assert all(not key.startswith("2/") for key in one.state_dict()[1]["noise"])
