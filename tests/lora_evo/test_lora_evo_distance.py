"""Distances against the dense answer they stand for."""

import pytest
import torch

from lora_evo import Adapter, LoraEvoError, Slot, distance, relative_change
from lora_evo.linalg.spectrum import effective_rank, numerical_rank, singular_values


def dense(adapter):
    return torch.cat(
        [(s.scale * s.B.double() @ s.A.double()).flatten() for s in adapter.slots.values()]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_equals_the_dense_formula_for_other_ranks_and_scales(make_adapter, dtype):
    one = make_adapter(1, dtype=dtype)
    two = make_adapter(2, r=7, alpha=5, use_rslora=True, dtype=dtype)
    d1, d2 = dense(one), dense(two)
    gap = torch.linalg.norm(d1 - d2)
    mean = ((d1.norm() ** 2 + d2.norm() ** 2) / 2).sqrt()
    assert distance(one, two) == pytest.approx(float(gap / mean), rel=1e-9)
    assert distance(one, two) == pytest.approx(distance(two, one), rel=1e-12)
    assert relative_change(one, two) == pytest.approx(float(gap / d1.norm()), rel=1e-9)


def test_small_gaps_keep_their_digits(make_adapter):
    one = make_adapter(1, dtype=torch.float64)
    for size in (1e-3, 1e-6, 1e-10):
        two = Adapter(
            one.config,
            {path: Slot(s.A, s.B * (1 + size), s.scale) for path, s in one.slots.items()},
        )
        assert distance(one, two) == pytest.approx(size, rel=2e-3)


def test_gauge_is_no_distance(make_adapter):
    one = make_adapter(1, dtype=torch.float64)
    two = Adapter(
        one.config,
        {path: Slot(s.A.flip(0) * 3, s.B.flip(1) / 3, s.scale) for path, s in one.slots.items()},
    )
    assert distance(one, two) < 1e-13
    assert distance(one, one) == 0


def test_zero_updates(make_adapter):
    zero, other = make_adapter(1, zero=True), make_adapter(2)
    assert distance(zero, make_adapter(3, zero=True)) == 0
    assert distance(zero, other) == pytest.approx(2**0.5)
    assert relative_change(zero, other) is None
    assert relative_change(other, zero) == pytest.approx(1)


def test_other_modules_and_shapes_are_refused(make_adapter):
    with pytest.raises(LoraEvoError, match="different modules"):
        distance(make_adapter(1), make_adapter(1, layers=1))
    with pytest.raises(LoraEvoError, match="same base model"):
        distance(make_adapter(1), make_adapter(1, outputs=8))


def test_spectrum_is_the_dense_one(make_adapter):
    slot = next(iter(make_adapter(1).slots.values()))
    exact = torch.linalg.svdvals(slot.scale * slot.B.double() @ slot.A.double())[:4]
    assert torch.allclose(singular_values(slot), exact, rtol=1e-5)
    assert effective_rank(torch.tensor([2.0, 2.0, 0.0])) == pytest.approx(2)
    assert effective_rank(torch.zeros(3)) == 0
    assert numerical_rank(torch.tensor([1.0, 1e-3, 1e-9])) == 2
