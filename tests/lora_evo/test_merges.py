"""Merges against dense sums, TIES and DARE in double precision, for any ranks and alphas."""

import json
from dataclasses import replace

import pytest
import torch
from by_hand import dense, same
from lora_evo_command import call, refused

from lora_evo import (
    Adapter,
    LoraEvoError,
    adapter_hash,
    content_hash,
    cross,
    distance,
    load_adapter,
    merge,
    merge_directory,
    read_lineage,
    save_adapter,
    verify,
)
from lora_evo.children import make_child
from lora_evo.compare import dead_pairs


def updates_of(adapter):
    return {path: dense(slot) for path, slot in adapter.slots.items()}


def cut(matrix, rank):
    u, values, vt = torch.linalg.svd(matrix, full_matrices=False)
    return (u[:, :rank] * values[:rank]) @ vt[:rank]


def ties(updates, weights, density):
    """TIES as mergekit has it, entry by entry, normalised."""
    parts = []
    for update, weight in zip(updates, weights, strict=True):
        kept = max(1, int(density * update.numel()))
        least = update.abs().flatten().sort(descending=True).values[kept - 1]
        parts.append(weight * torch.where(update.abs() >= least, update, 0))
    sign = torch.where(sum(parts) >= 0, 1.0, -1.0)
    agreeing = [part.sign() == sign for part in parts]
    total = sum(part * agree for part, agree in zip(parts, agreeing, strict=True))
    share = sum(w * a.double() for w, a in zip(weights, agreeing, strict=True))
    return total / torch.where(share == 0, 1.0, share)


@pytest.fixture
def parents(make_adapter):
    """Three adapters of other ranks, alphas, scales and patterns each."""
    return [
        make_adapter(1, r=4, alpha=8),
        make_adapter(2, r=6, alpha=3, use_rslora=True),
        make_adapter(3, r=2, alpha=5, alpha_pattern={"v_proj": 9}),
    ]


def error(found, wanted):
    """|found - wanted| / |wanted| over all modules."""
    gap = sum(float((found[p] - wanted[p]).square().sum()) for p in wanted)
    return (gap / sum(float(w.square().sum()) for w in wanted.values())) ** 0.5


@pytest.mark.parametrize("weights", [None, (1, 1, 1), (2, 0.5, -1)])
@pytest.mark.parametrize("method", ["linear", "svd"])
def test_a_sum_is_the_best_of_its_rank_and_says_what_it_lost(parents, method, weights):
    child = make_child(parents, f"merge_{method}", 0, weights=weights)
    given = weights or (1 / 3,) * 3
    updates = [updates_of(parent) for parent in parents]
    for path, slot in child.adapter.slots.items():
        whole = sum(w * u[path] for w, u in zip(given, updates, strict=True))
        found = dense(slot)
        assert error({"": found}, {"": cut(whole, 6)}) < 1e-5
        lost = float((whole - cut(whole, 6)).norm() / whole.norm())
        assert child.lineage.modules[path].truncation_loss == pytest.approx(lost, rel=1e-4)
    assert child.adapter.config == parents[0].config.of_rank(6)


def test_with_the_rank_of_all_parents_together_a_sum_is_exact(parents):
    found = merge(parents, weights=(1, -2, 0.5), rank=12)
    updates = [updates_of(parent) for parent in parents]
    wanted = {p: updates[0][p] - 2 * updates[1][p] + 0.5 * updates[2][p] for p in updates[0]}
    assert error(updates_of(found), wanted) < 1e-5
    assert (found.config.r, found.config.lora_alpha) == (12, 24)
    assert {slot.scale for slot in found.slots.values()} == {2.0}
    for method in ("svd", "ties"):
        with pytest.raises(LoraEvoError, match=r"rank is 200.*at most rank (12|24)"):
            merge(parents, method, rank=200)


def test_cat_is_the_sum_without_loss_and_every_pair_lives(parents):
    found = merge(parents, "cat", weights=(1, -2, 0.5))
    updates = [updates_of(parent) for parent in parents]
    wanted = {p: updates[0][p] - 2 * updates[1][p] + 0.5 * updates[2][p] for p in updates[0]}
    assert error(updates_of(found), wanted) < 1e-6
    assert found.config.r == 12
    assert not any(map(dead_pairs, found.slots.values()))


@pytest.mark.parametrize("method", ["svd", "linear", "cat", "ties", "dare_linear", "dare_ties"])
def test_a_module_that_a_parent_lacks_counts_as_0(home, make_adapter, method):
    whole, other = make_adapter(1), make_adapter(2, r=6)
    *kept, left_out = other.paths
    part = Adapter(other.config, {path: other.slots[path] for path in kept})
    zero = replace(other.slots[left_out], B=torch.zeros_like(other.slots[left_out].B))
    filled = Adapter(other.config, {**other.slots, left_out: zero})
    for pair, same_as in (((whole, part), (whole, filled)), ((part, whole), (filled, whole))):
        more = {} if method == "cat" else {"rank": 8}
        given = {"weights": (1, 0.5), "seed": 3, **more}
        found, wanted = merge(pair, method, **given), merge(same_as, method, **given)
        assert found.paths == whole.paths
        assert error(updates_of(found), updates_of(wanted)) < 1e-4
        assert not any(map(dead_pairs, found.slots.values()))
    save_adapter(part, "part")
    said = call("merge", "part", "p1", "--out", "m", "--method", method)
    assert "part lacks 1 modules, which count as 0" in said.output
    assert verify("m").identical
    assert set(load_adapter("m").config.target_modules) == set(whole.paths)
    with pytest.raises(LoraEvoError, match="use merge, to which a missing module is 0"):
        cross([whole, part], "average", seed=1)


def weighted_by_peft(parents, kind, weights, **more):
    """The dense updates of PEFT's add_weighted_adapter, in float64."""
    pytest.importorskip("peft")
    model = torch.nn.Module()
    model.prepare_inputs_for_generation = None
    for path, slot in parents[0].slots.items():
        at = model
        for part in path.split(".")[:-1]:
            if not hasattr(at, part):
                at.add_module(part, torch.nn.Module())
            at = getattr(at, part)
        at.add_module(path.split(".")[-1], torch.nn.Linear(slot.A.shape[1], len(slot.B)))
    for number, parent in enumerate(parents):
        model = parent.to_peft(model, f"p{number}")
    names = [f"p{number}" for number in range(len(parents))]
    model.add_weighted_adapter(names, list(weights), "child", combination_type=kind, **more)
    layers = model.get_base_model()
    return {p: layers.get_submodule(p).get_delta_weight("child").double() for p in parents[0].paths}


def test_svd_and_cat_are_those_of_peft(make_adapter):
    parents = [make_adapter(1, alpha=8), make_adapter(2, r=6, alpha=3)]
    for method in ("svd", "cat"):
        wanted = weighted_by_peft(parents, method, (1.0, -0.5))
        found = merge(parents, method, weights=(1.0, -0.5))
        assert error(updates_of(found), wanted) < 1e-6
        assert found.config.r == {"svd": 6, "cat": 10}[method]


def test_ties_of_equal_weights_is_that_of_peft_over_the_weight(make_adapter):
    parents = [make_adapter(seed, outputs=24) for seed in (1, 2, 3)]
    for weight in (1.0, 0.3):
        wanted = weighted_by_peft(parents, "ties_svd", (weight,) * 3, svd_rank=24, density=0.4)
        found = merge(parents, "ties", weights=(weight,) * 3, density=0.4, rank=24)
        ours = {path: weight * update for path, update in updates_of(found).items()}
        assert error(ours, wanted) < 1e-5


def test_dare_ties_is_ties_of_what_was_left_without_division(parents):
    """With the same entries dropped, as the sum of dare_linear's own parts shows."""
    more = {"density": 0.5, "rank": 24, "seed": 4}
    path, weights = parents[0].paths[0], (1.0, 0.7, 0.4)
    alone = [
        updates_of(merge(parents, "dare_linear", weights=one, **more))[path]
        for one in ((1, 0, 0), (0, 0.7, 0), (0, 0, 0.4))
    ]
    sign = torch.where(sum(alone) >= 0, 1.0, -1.0)
    wanted = sum(part * (part * sign > 0) for part in alone)
    found = updates_of(merge(parents, "dare_ties", weights=weights, **more))[path]
    assert error({"": found}, {"": wanted}) < 1e-3


def test_a_rank_of_its_own_keeps_the_scale_under_rslora_and_drops_patterns(make_adapter):
    kind = {"use_rslora": True, "rank_pattern": {"v_proj": 2}, "alpha_pattern": {"q_proj": 3}}
    first = make_adapter(1, alpha=6, **kind)
    found = merge([first, make_adapter(2)], rank=6)
    assert {slot.rank for slot in found.slots.values()} == {6}
    assert [slot.scale for slot in found.slots.values()] == pytest.approx([3.0] * 4)
    updates = [updates_of(parent) for parent in (first, make_adapter(2))]
    wanted = {p: cut((updates[0][p] + updates[1][p]) / 2, 6) for p in updates[0]}
    assert error(updates_of(found), wanted) < 1e-5


@pytest.mark.parametrize("weights", [(1, 1, 1), (0.5, 0.2, 0.3), (1, -1, 0.5)])
@pytest.mark.parametrize("density", [0.2, 0.5, 1.0])
def test_ties_elects_signs_on_updates(parents, weights, density):
    child = make_child(parents, "merge_ties", 0, weights=weights, density=density, rank=4)
    updates = [updates_of(parent) for parent in parents]
    for path, slot in child.adapter.slots.items():
        whole = ties([update[path] for update in updates], weights, density)
        best = float((whole - cut(whole, 4)).norm())
        found = dense(slot)
        assert float((whole - found).norm()) <= best * (1 + 1e-3)
        lost = child.lineage.modules[path].truncation_loss
        assert lost == pytest.approx(best / float(whole.norm()), rel=1e-3)


def test_with_every_direction_held_ties_and_dare_lose_nothing(parents):
    updates = [updates_of(parent) for parent in parents]
    found = updates_of(merge(parents, "ties", weights=(1, 1, 1), density=0.4, rank=24))
    wanted = {p: ties([update[p] for update in updates], (1, 1, 1), 0.4) for p in updates[0]}
    assert error(found, wanted) < 1e-5
    dared = make_child(parents, "merge_dare_linear", 5, density=0.4, rank=24)
    assert dared.lineage.truncation_loss < 2e-6
    whole = updates_of(merge(parents, rank=12))
    assert 0.5 < error(updates_of(dared.adapter), whole) < 2


def test_dare_keeps_a_share_of_entries_and_its_mean_is_the_sum(make_adapter):
    parents = [make_adapter(1), make_adapter(2, r=2)]
    wanted = updates_of(merge(parents, rank=6))
    path = next(iter(wanted))
    parts = [0.5 * updates_of(parent)[path] for parent in parents]
    given = {"density": 0.5, "rank": 24}
    drawn = [updates_of(merge(parents, "dare_linear", seed=s, **given))[path] for s in range(40)]
    # Each entry is a sum of parts, each of them there and doubled, or not.
    options = torch.stack([2 * (a * parts[0] + b * parts[1]) for a in (0, 1) for b in (0, 1)])
    assert float((drawn[0] - options).abs().amin(dim=0).max()) < 1e-6
    mean = torch.stack(drawn).mean(dim=0)
    assert error({"": mean}, {"": wanted[path]}) < 1.3 / 40**0.5
    assert same(*(merge(parents, "dare_linear", seed=1) for _ in range(2)))


def test_equal_parents_give_themselves(make_adapter):
    parent = make_adapter(1)
    for method, more in (
        ("svd", {}),
        ("ties", {"density": 1.0}),
        ("dare_linear", {"density": 1.0}),
    ):
        assert distance(merge([parent, parent], method, **more), parent) < 1e-6
    assert distance(merge([parent, parent], "ties", weights=(1, 1), density=1.0), parent) < 1e-6


def test_fresh_parents_give_a_fresh_child_whose_pairs_live(make_adapter):
    fresh = [make_adapter(seed, zero=True) for seed in (1, 2)]
    for method in ("svd", "ties", "dare_linear"):
        found = merge(fresh, method)
        for slot in found.slots.values():
            assert not slot.B.any()
            assert (slot.A != 0).any(dim=1).all()


@pytest.mark.parametrize(("method", "rank"), [("svd", None), ("ties", 5)])
def test_the_command_merges_what_memory_does_and_it_verifies(home, make_adapter, method, rank):
    save_adapter(make_adapter(7, r=2, alpha=3, dtype=torch.bfloat16), home / "p3")
    more = [] if rank is None else ["--set", f"rank={rank}"]
    names, weights = ("p1", "p2", "p3"), "--weights=1,0.5,-0.3"
    said = call("merge", *names, "--out", "m", "--method", method, weights, *more)
    assert "cut off to fit the rank: " in said.stdout
    given = {} if rank is None else {"rank": rank}
    made = merge([*map(load_adapter, names)], method, weights=(1, 0.5, -0.3), **given)
    assert content_hash("m") == adapter_hash(made)
    record = read_lineage("m")
    assert record.operator == f"merge_{method}"
    assert record.parents == tuple(map(content_hash, names))
    assert load_adapter("m").config.r == (rank or 4)
    assert verify("m").identical
    assert "with" in call("lineage", ".").stdout


def test_what_cannot_be_merged_is_refused(home, make_adapter):
    two = [make_adapter(1), make_adapter(2)]
    for said, method, given in (
        ("did you mean 'ties'", "tie", {}),
        ("has no parameter 'density'", "svd", {"density": 0.5}),
        ("density is 0", "ties", {"density": 0}),
        ("density is 1.5", "dare_linear", {"density": 1.5}),
        ("rank is 0", "svd", {"rank": 0}),
        ("not all 0", "svd", {"weights": (0, 0)}),
        ("1 weight", "svd", {"weights": (1,)}),
    ):
        with pytest.raises(LoraEvoError, match=said):
            merge(two, method, **given)
    with pytest.raises(LoraEvoError, match="at least two"):
        merge(two[:1])
    with pytest.raises(LoraEvoError, match="given twice"):
        merge_directory(["p1", "p1"], home / "m")
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
    assert error(updates_of(merge([plain], rank=40)), updates_of(plain)) == 0
    small = updates_of(merge([plain], rank=2))
    assert error(small, {path: cut(u, 2) for path, u in updates_of(plain).items()}) < 1e-6
    for method in ("svd", "linear", "cat"):
        back = merge([parent], method, weights=(-1,))
        assert back.config == parent.config
        for path, slot in back.slots.items():
            assert torch.equal(slot.A, parent.slots[path].A)
            assert torch.equal(slot.B, -parent.slots[path].B)
    call("merge", "p1", "--out", "m", "--set", "rank=2")
    assert load_adapter("m").config.r == 2
    assert verify("m").identical
    refused("merge p1 --out n", "at least two parents, or one with a rank or a weight; got 1")
