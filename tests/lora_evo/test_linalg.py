"""Bases, spectra, distances and spaces from small matrices, against the dense way."""

import pytest
import torch

from lora_evo.operators.thin import prepared, span, thin


def drawn(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e7])
def test_a_factor_comes_back_whatever_its_condition_and_layout(transposed, condition):
    factor = drawn(0, 6, 50).T if transposed else drawn(0, 50, 6)
    factor = factor.double()
    factor[:, 5] = factor[:, 4] + factor[:, 5] / condition
    split = thin(factor)
    assert torch.allclose(split.rotate(torch.eye(6, dtype=torch.float64)), factor, atol=1e-12)
    basis = split.apply_basis(torch.eye(6, dtype=torch.float64))
    slack = 1e-6 if split.q is None else 1e-12
    assert torch.allclose(basis.T @ basis, torch.eye(6, dtype=torch.float64), atol=slack)
    assert torch.allclose(basis @ split.upper, factor, atol=1e-10)


@pytest.mark.parametrize("kind", ["independent", "twin", "short", "wide"])
def test_a_span_holds_every_factor_in_one_orthonormal_basis(kind):
    rows = 6 if kind == "wide" else 60
    one, other = drawn(1, rows, 4), drawn(2, rows, 4)
    second = {
        **dict.fromkeys(("independent", "wide"), other),
        "twin": one.clone(),
        "short": torch.cat((one[:, :2], other[:, :2]), dim=1),
    }[kind]
    third = drawn(4, rows, 2)
    found = span([one, second, third])
    size = len(found.uppers[0])
    assert size <= min(rows, 10)
    basis = found.apply_basis(torch.eye(size, dtype=torch.float64)).double()
    assert torch.allclose(basis.T @ basis, torch.eye(size, dtype=torch.float64), atol=2e-6)
    for factor, upper in zip((one, second, third), found.uppers, strict=True):
        assert float((basis @ upper - factor).norm() / factor.norm()) < 1e-6


def test_a_tensor_off_its_alignment_is_copied_and_others_are_not():
    block = torch.arange(33.0)
    assert prepared(block).data_ptr() == block.data_ptr()
    assert prepared(block[1:]).data_ptr() % 64 == 0
    assert torch.equal(prepared(block[1:]), block[1:])
