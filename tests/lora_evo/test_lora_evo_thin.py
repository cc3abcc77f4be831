"""Thin factorisations, common bases, steps and the look for NaN, each against the plain way."""

import math

import pytest
import torch

from lora_evo import LoraEvoError
from lora_evo.files.adapter import all_finite
from lora_evo.linalg.span import span
from lora_evo.linalg.thin import prepared, thin
from lora_evo.operators.mutations.step import solve_step


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
    assert all_finite(values)
    assert all_finite(torch.full((300, 7), torch.finfo(dtype).max, dtype=dtype))
    values[123, 4] = bad
    assert not all_finite(values)
    values[7, 1] = -bad
    assert not all_finite(values)


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
