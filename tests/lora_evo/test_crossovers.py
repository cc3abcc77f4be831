"""Crossovers on updates: against the dense answer, whatever the gauge, rank, scale or threads."""

from collections import Counter

import pytest
import torch
from by_hand import changed, child_of, doubled, flipped, regauged, same
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import cross, distance, retention
from lora_evo.children import make_child
from lora_evo.operators.crossovers import assign
from lora_evo.operators.operator import Setup

ON_UPDATES = ("average", "extrapolate", "svd_subspace", "dare")
each_on_updates = pytest.mark.parametrize("operator", ON_UPDATES)


@each_on_updates
@settings(max_examples=15)
@given(seed=st.integers(0, 2**40), stretch=st.none() | st.floats(0.1, 10))
def test_the_factorization_does_not_matter_and_a_parent_crossed_with_itself_is_itself(
    make_adapter, operator, seed, stretch
):
    def other(adapter):
        return regauged(adapter, seed % 1000, stretch) if stretch else flipped(adapter)

    parents = [doubled(make_adapter(seed % 50)), doubled(make_adapter(seed % 50 + 1, r=5))]
    child = cross(parents, operator, seed)
    assert distance(child, parents[0]) > 0.01
    assert distance(child, cross(list(map(other, parents)), operator, seed)) < 1e-7
    assert same(cross([parents[0]] * 2, operator, seed), parents[0])
    twin = cross([other(parents[0]), parents[0]], operator, seed)
    assert distance(twin, parents[0]) < 1e-6


@pytest.mark.parametrize("operator", [*ON_UPDATES, "merge_svd", "merge_ties", "merge_dare_linear"])
def test_fresh_parents_and_dead_pairs(make_adapter, operator):
    full, fresh = make_adapter(1, r=6), make_adapter(2, zero=True)
    both = make_child([fresh, make_adapter(3, zero=True)], operator, 0)
    assert both.lineage.relative_change == 0.0
    for pair in ([full, fresh], [fresh, full]):
        child = child_of(operator, pair, 3)
        for slot in child.slots.values():
            assert bool(torch.isfinite(slot.B).all())
            assert bool((slot.A.norm(dim=1) > 0.01).all())
    assert all(float(slot.B.norm()) == 0.0 for slot in both.adapter.slots.values())
    assert all(bool((slot.A.norm(dim=1) > 0.01).all()) for slot in both.adapter.slots.values())


def test_gauge_of_the_child_is_that_of_a_fresh_lora(make_adapter):
    parents = [make_adapter(1), make_adapter(2)]
    for path, slot in cross(parents, "average", 0).slots.items():
        gram = slot.A.double() @ slot.A.double().T
        length = float(parents[0].slots[path].A.double().norm()) ** 2 / slot.rank
        torch.testing.assert_close(
            gram, length * torch.eye(slot.rank, dtype=torch.float64), atol=1e-6, rtol=1e-6
        )


def setup(paths=(), weights=(1.0, 1.0), seed=0, **parameters):
    return Setup(tuple(paths), (None,) * len(weights), None, seed, None, weights, parameters)


def test_draws_are_fair_weighted_independent_of_the_rest_and_no_accidental_copy():
    units = [f"model.layers.{n}.q_proj" for n in range(2000)]
    even = assign(setup(), units)
    assert abs(Counter(even.values())[0] - 1000) < 150
    tilted = Counter(assign(setup(weights=(3, 0, 1)), units).values())
    assert abs(tilted[0] - 1500) < 150
    assert tilted[1] == 0
    assert assign(setup(), units[:500]).items() <= even.items()
    for weights, parents in (((1, 1), 2), ((1, 0), 1)):
        for seed in range(100):
            chosen = assign(setup(weights=weights, seed=seed), ["a", "b"])
            assert len(set(chosen.values())) == parents


@pytest.mark.parametrize("operator", ["svd_subspace", "slot_swap"])
@pytest.mark.parametrize("size", [1.0, 0.1, 1e-3, 1e-6])
def test_children_of_siblings_keep_their_digits(make_adapter, operator, size):
    noise = torch.Generator().manual_seed(1)

    def drawn(factor):
        return factor + size * factor.std() * torch.randn(factor.shape, generator=noise)

    one = make_adapter(3, inputs=60, outputs=50)
    two = changed(one, lambda a, b: (drawn(a), drawn(b)))
    child = make_child([one, two], operator, 1)
    change = retention(one, child.adapter).whole.relative_change
    assert change > size / 10
    assert child.lineage.relative_change == pytest.approx(change, rel=1e-4, abs=3e-7)
