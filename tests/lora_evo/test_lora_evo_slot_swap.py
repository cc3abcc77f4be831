"""The layer-wise crossover: exact, fair, never an accidental copy."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import LoraEvoError, cross
from lora_evo.children import make_child
from lora_evo.linalg.updates import relative_change
from lora_evo.operators.operator import Request, units_of
from lora_evo.operators.slot_swap import assign


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), count=st.integers(2, 4))
def test_every_slot_comes_whole_from_the_parent_on_record(make_adapter, seed, count):
    parents = [make_adapter(seed % 50 + index) for index in range(count)]
    child = make_child(parents, "slot_swap", seed)
    sources = set()
    for path, slot in child.adapter.slots.items():
        source = child.lineage.modules[path].source
        sources.add(source)
        assert torch.equal(slot.A, parents[source].slots[path].A)
        assert torch.equal(slot.B, parents[source].slots[path].B)
    assert len(sources) > 1
    assert child.lineage.moments_valid
    assert child.lineage.relative_change == pytest.approx(
        relative_change(parents[0], child.adapter), rel=1e-6
    )


@pytest.mark.parametrize("level", ["layer", "block"])
def test_layers_and_blocks_move_together(make_adapter, level):
    parents = [make_adapter(index, layers=6) for index in range(2)]
    modules = make_child(parents, "slot_swap", 1, level=level).lineage.modules
    for layer in range(6):
        inside = [m.source for path, m in modules.items() if f".{layer}." in path]
        assert len(inside) == 2
        assert len(set(inside)) == 1


def test_units_of_levels():
    paths = ("lm_head", "model.layers.11.mlp.up_proj", "model.layers.11.self_attn.q_proj")
    units = {
        level: tuple(units_of(Request(paths, (), 1, None, None, {"level": level})).values())
        for level in ("module", "block", "layer")
    }
    assert units == {
        "module": paths,
        "block": ("lm_head", "model.layers.11.mlp", "model.layers.11.self_attn"),
        "layer": ("lm_head", "model.layers.11", "model.layers.11"),
    }


def test_draws_are_fair_weighted_and_independent_of_the_rest():
    units = [f"model.layers.{n}.q_proj" for n in range(2000)]
    even = Counter(assign(units, (1, 1), 0).values())
    assert abs(even[0] - 1000) < 150
    tilted = Counter(assign(units, (3, 0, 1), 0).values())
    assert abs(tilted[0] - 1500) < 150
    assert tilted[1] == 0
    assert {u: p for u, p in assign(units, (1, 1), 0).items() if u in units[:500]} == dict(
        assign(units[:500], (1, 1), 0)
    )


def test_no_child_of_two_parents_is_an_accidental_copy():
    units = ["a", "b"]
    assert all(len(set(assign(units, (1, 1), seed).values())) == 2 for seed in range(200))
    assert all(len(set(assign(units, (1, 0), seed).values())) == 1 for seed in range(20))


def test_other_alpha_is_carried_over_exactly_in_the_update(make_adapter):
    first = make_adapter(1, alpha=8)
    second = make_adapter(2, alpha=32, use_rslora=True)
    child = make_child([first, second], "slot_swap", 3)
    assert child.adapter.config == first.config
    assert not child.lineage.moments_valid
    for path, slot in child.adapter.slots.items():
        parent = (first, second)[child.lineage.modules[path].source].slots[path]
        assert torch.allclose(
            slot.scale * slot.B @ slot.A, parent.scale * parent.B @ parent.A, rtol=1e-5, atol=1e-8
        )


@pytest.mark.parametrize(
    ("other", "settings_", "words"),
    [
        ({"r": 8}, {}, "rank 4 in parent 1 and 8 in parent 2"),
        ({}, {"level": "tensor"}, "module, block, layer"),
        ({}, {"weights": [1]}, "1 weight"),
        ({}, {"weights": [1, -1]}, "at least 0"),
        ({}, {"weights": [0, 0]}, "not all 0"),
        ({}, {"rank": 3}, "no parameter 'rank'"),
    ],
)
def test_refusals(make_adapter, other, settings_, words):
    with pytest.raises(LoraEvoError, match=words):
        cross([make_adapter(1), make_adapter(2, **other)], "slot_swap", 1, **settings_)
