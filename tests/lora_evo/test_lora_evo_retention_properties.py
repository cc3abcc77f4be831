"""What holds for the proxies of any two adapters."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import Adapter, Slot
from lora_evo.retained.weights import retention


def scrambled(adapter, seed):
    """The same updates, every slot in another gauge."""
    noise = torch.Generator().manual_seed(seed)
    slots = {}
    for path, slot in adapter.slots.items():
        turn = torch.randn(slot.rank, slot.rank, generator=noise, dtype=torch.float64)
        turn += 4 * slot.rank * torch.eye(slot.rank)
        slots[path] = Slot(turn @ slot.A, slot.B @ torch.linalg.inv(turn), slot.scale)
    return Adapter(adapter.config, slots)


@settings(max_examples=25, deadline=None)
@given(
    ranks=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    alphas=st.tuples(st.floats(0.5, 64), st.floats(0.5, 64)),
    rslora=st.booleans(),
    seed=st.integers(0, 99),
)
def test_bounds_symmetry_and_gauge(make_adapter, ranks, alphas, rslora, seed):
    one, two = (
        make_adapter(
            seed + place, r=ranks[place], alpha=alphas[place], use_rslora=rslora and place == 1,
            inputs=10, outputs=8, layers=1, dtype=torch.float64,
        )
        for place in (0, 1)
    )  # fmt: skip
    found, back = retention(one, two), retention(two, one)
    again = retention(scrambled(one, seed), scrambled(two, seed + 7))
    rows = [(found.whole, back.whole, again.whole)]
    rows += [(found.modules[p], back.modules[p], again.modules[p]) for p in found.modules]
    for row, reverse, turned in rows:
        assert row.spectrum_distance <= row.relative_change * (1 + 1e-9)
        assert abs(row.norm_ratio - 1) <= row.spectrum_distance * (1 + 1e-9) + 1e-12
        assert -1 <= row.cosine <= 1
        # The law of cosines ties the three numbers together.
        squared = 1 + row.norm_ratio**2 - 2 * row.cosine * row.norm_ratio
        assert row.relative_change**2 == pytest.approx(squared, rel=1e-6, abs=1e-12)
        assert row.cosine == pytest.approx(reverse.cosine, rel=1e-9, abs=1e-12)
        assert row.norm_ratio == pytest.approx(1 / reverse.norm_ratio, rel=1e-9)
        assert (row.parent, row.child) == (reverse.child, reverse.parent)
        for name in ("column_overlap", "row_overlap"):
            assert 0 <= getattr(row, name) <= 1
            assert getattr(row, name) == pytest.approx(getattr(reverse, name), rel=1e-9)
            assert getattr(row, name) == pytest.approx(getattr(turned, name), rel=1e-6)
        for name in ("relative_change", "cosine", "norm_ratio", "spectrum_distance"):
            expected = getattr(row, name)
            assert getattr(turned, name) == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert turned.child.effective_rank == pytest.approx(row.child.effective_rank, rel=1e-6)
