"""Merges of adapters that lack modules, are fresh or alone, and as a command."""

import json

import pytest
import torch
from by_hand import changed, dense, same
from lora_evo_command import call, refused

from lora_evo import (
    Adapter,
    LoraEvoError,
    adapter_hash,
    content_hash,
    cross,
    load_adapter,
    merge,
    read_lineage,
    save_adapter,
    verify,
    write_child,
)
from lora_evo.compare import dead_pairs


def updates_of(adapter):
    return {path: dense(slot) for path, slot in adapter.slots.items()}


def error(found, wanted):
    """|found - wanted| / |wanted| over all modules."""
    gap = sum(float((found[p] - wanted[p]).square().sum()) for p in wanted)
    return (gap / sum(float(w.square().sum()) for w in wanted.values())) ** 0.5


@pytest.mark.parametrize("method", ["svd", "cat", "ties", "dare_linear"])
def test_a_module_that_a_parent_lacks_counts_as_0(home, make_adapter, method):
    whole, other = make_adapter(1), make_adapter(2, r=6)
    part = Adapter(other.config, {path: other.slots[path] for path in other.paths[:-1]})
    found = merge([part, whole], method, weights=(1, 0.5))
    assert found.paths == whole.paths
    assert not any(map(dead_pairs, found.slots.values()))
    save_adapter(part, "part")
    said = call("merge", "part", "p1", "--out", "m", "--method", method)
    assert "part lacks 1 modules, which count as 0" in said.output
    assert verify("m").identical
    assert set(load_adapter("m").config.target_modules) == {"q_proj", "v_proj"}
    with pytest.raises(LoraEvoError, match="use merge, for which a missing module is 0"):
        cross([whole, part], "average", seed=1)


def test_the_command_merges_what_memory_does_and_it_verifies(home, make_adapter):
    save_adapter(make_adapter(7, r=2, alpha=3, dtype=torch.bfloat16), home / "p3")
    names, more = ("p1", "p2", "p3"), ("--weights=1,0.5,-0.3", "--set", "rank=5")
    said = call("merge", *names, "--out", "m", "--method", "ties", *more)
    assert "cut off to fit the rank: " in said.stdout
    made = merge([*map(load_adapter, names)], "ties", weights=(1, 0.5, -0.3), rank=5)
    assert content_hash("m") == adapter_hash(made)
    record = read_lineage("m")
    assert record.operator == "merge_ties"
    assert record.parents == tuple(map(content_hash, names))
    assert verify("m").identical


def test_what_cannot_be_merged_is_refused(home, make_adapter):
    two = [make_adapter(1), make_adapter(2)]
    for said, method, given in (
        ("has no parameter 'density'", "svd", {"density": 0.5}),
        ("density is 0", "ties", {"density": 0}),
        ("density is 1.5", "dare_linear", {"density": 1.5}),
        ("rank is 0", "svd", {"rank": 0}),
        ("rank is 200.*at most rank 24", "ties", {"rank": 200}),
    ):
        with pytest.raises(LoraEvoError, match=said):
            merge(two, method, **given)
    with pytest.raises(LoraEvoError, match="at least two"):
        merge(two[:1])
    with pytest.raises(LoraEvoError, match="given twice"):
        write_child("merge_svd", ["p1", "p1"], home / "m")
    found = json.loads(call("merge", "p1", "p2", "--out", "m", "--json").stdout)
    assert found["weights"] is None
    assert found["seed"] == 0


def test_one_adapter_is_resized_and_negated(home, make_adapter):
    parent = make_adapter(1, r=4, alpha_pattern={"v_proj": 3}, dtype=torch.bfloat16)
    before = updates_of(parent)
    wider = merge([parent], rank=6)
    for slot in wider.slots.values():
        assert slot.rank == 6
        assert not slot.B[:, 4:].any()
    assert error(updates_of(wider), before) < 1e-3
    plain = make_adapter(1)
    assert error(updates_of(merge([plain], rank=30)), updates_of(plain)) == 0
    for method in ("svd", "linear", "cat"):
        back = merge([parent], method, weights=(-1,))
        assert back.config == parent.config
        for path, slot in back.slots.items():
            assert torch.equal(slot.A, parent.slots[path].A)
            assert torch.equal(slot.B, -parent.slots[path].B)
    opposite = changed(plain, lambda a, b: (a, -b))
    for method in ("ties", "dare_ties"):
        less = merge([parent, plain], method, weights=(1, -0.5), density=0.6)
        assert same(less, merge([parent, opposite], method, weights=(1, 0.5), density=0.6))
    call("merge", "p1", "--out", "m", "--set", "rank=2")
    assert load_adapter("m").config.r == 2
    assert verify("m").identical
    refused("merge p1 --out n", "at least two parents, or one with a rank or a weight; got 1")
    said = (
        "rank is 1000000000, but the merged update of model.layers.0.self_attn.q_proj has at most"
    )
    refused("merge p1 --out n --set rank=1000000000", f"{said} rank 24")
