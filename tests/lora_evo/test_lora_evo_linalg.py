"""Bases, spectra, distances and spaces from small matrices, against the dense way."""

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import Adapter, LoraEvoError, Slot, distance
from lora_evo.files.adapter import _all_finite
from lora_evo.linalg.spaces import space_overlaps, spaces
from lora_evo.linalg.thin import prepared, span, thin
from lora_evo.linalg.updates import (
    effective_rank,
    numerical_rank,
    relative_change,
    singular_values,
)
from lora_evo.operators.step import solve_step


def drawn(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e7])
def test_a_factor_comes_back_whatever_its_condition_and_layout(transposed, condition):
    factor = drawn(0, 6, 50).T if transposed else drawn(0, 50, 6)
    factor = factor.double()
    factor[:, 5] = factor[:, 4] + factor[:, 5] / condition
    split = thin(factor)
    assert torch.allclose(split.turned(torch.eye(6, dtype=torch.float64)), factor, atol=1e-12)
    basis = split.spread(torch.eye(6, dtype=torch.float64))
    slack = 1e-6 if split.q is None else 1e-12
    assert torch.allclose(basis.T @ basis, torch.eye(6, dtype=torch.float64), atol=slack)
    assert torch.allclose(basis @ split.upper, factor, atol=1e-10)


@pytest.mark.parametrize("kind", ["independent", "sibling", "twin", "same space", "short", "wide"])
def test_a_span_holds_every_factor_in_one_orthonormal_basis(kind):
    rows = 6 if kind == "wide" else 60
    one, other = drawn(1, rows, 4), drawn(2, rows, 4)
    second = {
        "independent": other,
        "wide": other,
        "sibling": one + 1e-3 * other,
        "twin": one.clone(),
        "same space": one @ drawn(3, 4, 4),
        "short": torch.cat((one[:, :2], other[:, :2]), dim=1),
    }[kind]
    third = drawn(4, rows, 2)
    found = span([one, second, third])
    size = len(found.uppers[0])
    assert size <= min(rows, 10)
    basis = found.spread(torch.eye(size, dtype=torch.float64)).double()
    assert torch.allclose(basis.T @ basis, torch.eye(size, dtype=torch.float64), atol=2e-6)
    for factor, upper in zip((one, second, third), found.uppers, strict=True):
        assert float((basis @ upper - factor).norm() / factor.norm()) < 1e-6


def test_a_tensor_off_its_alignment_is_copied_and_others_are_not():
    block = torch.arange(33.0)
    assert prepared(block).data_ptr() == block.data_ptr()
    assert prepared(block[1:]).data_ptr() % 64 == 0
    assert torch.equal(prepared(block[1:]), block[1:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_value_among_many_is_seen(dtype, bad):
    values = drawn(5, 300, 7).to(dtype)
    assert _all_finite(values)
    assert _all_finite(torch.full((300, 7), torch.finfo(dtype).max, dtype=dtype))
    values[123, 4] = bad
    assert not _all_finite(values)
    values[7, 1] = -bad
    assert not _all_finite(values)


@pytest.mark.parametrize("power", [0.5, 1, 3])
def test_a_step_is_found_in_few_trials_and_tried_last(power):
    tried = []

    def change(step):
        tried.append(step)
        return step**power + 0.2 * step

    step = solve_step(change, 0.15)
    assert step == tried[-1]
    assert abs(change(step) - 0.15) <= 1.5e-8
    assert len(tried) <= 12


def test_a_change_that_never_gets_there_is_refused():
    with pytest.raises(LoraEvoError, match="ask for less"):
        solve_step(lambda step: 0.1 * step / (1 + step), 0.15)


def slot_of(seed, rank=3, inputs=12, outputs=15, scale=2.0):
    a, b = drawn(seed, rank, inputs, dtype=torch.float64), drawn(seed + 99, outputs, rank)
    return Slot(a, b.double(), scale)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_overlaps_are_those_of_dense_angles_for_any_ranks(seed, rank1, rank2):
    one, two = slot_of(seed, rank1), slot_of(seed + 1, rank2, scale=0.3)
    updates = [(slot.scale * slot.B @ slot.A).numpy() for slot in (one, two)]
    for found, sides in zip(
        space_overlaps([one, two]), (updates, [update.T for update in updates]), strict=True
    ):
        u1, u2 = (
            numpy.linalg.svd(side)[0][:, :rank]
            for side, rank in zip(sides, (rank1, rank2), strict=True)
        )
        cosines = numpy.linalg.svd(u1.T @ u2, compute_uv=False)
        assert found[0, 1] == found[1, 0] == pytest.approx(numpy.mean(cosines**2), abs=1e-9)
        assert found.diagonal().tolist() == [1, 1]


def test_bases_of_spaces_give_the_update_back_without_dead_directions():
    one = slot_of(5)
    dead = Slot(one.A, torch.cat((one.B[:, :2], 0 * one.B[:, 2:]), dim=1), 2.0)
    for slot, rank in ((one, 3), (dead, 2)):
        held, eye = spaces(slot), torch.eye(rank, dtype=torch.float64)
        torch.testing.assert_close(held.columns.T @ held.columns, eye)
        torch.testing.assert_close(held.rows.T @ held.rows, eye)
        torch.testing.assert_close(
            held.columns @ torch.diag(held.values) @ held.rows.T, slot.scale * slot.B @ slot.A
        )
    empty = space_overlaps([one, Slot(one.A, 0 * one.B, 2.0)])[0]
    assert math.isnan(empty[0, 1])
    assert math.isnan(empty[1, 1])


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


def test_spectrum_is_the_dense_one(make_adapter):
    slot = next(iter(make_adapter(1).slots.values()))
    exact = torch.linalg.svdvals(slot.scale * slot.B.double() @ slot.A.double())[:4]
    assert torch.allclose(singular_values(slot), exact, rtol=1e-5)
    assert effective_rank(torch.tensor([2.0, 2.0, 0.0])) == pytest.approx(2)
    assert effective_rank(torch.zeros(3)) == 0
    assert numerical_rank(torch.tensor([1.0, 1e-3, 1e-9])) == 2
