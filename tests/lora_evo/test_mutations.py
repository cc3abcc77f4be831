"""Mutations: exact strength, live ranks, and what each of them keeps."""

import pytest
import torch
from by_hand import DOUBLE, change, changed, dense, flipped, regauged, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lora_evo_command import call

from lora_evo import OPERATORS, Adapter, LoraEvoError, mutate, save_adapter
from lora_evo.children import make_child
from lora_evo.compare import dead_pairs, numerical_rank, singular_values

MUTATIONS = [name for name, operator in OPERATORS.items() if operator.kind == "mutation"]
PATH = "model.layers.0.self_attn.q_proj"
few = settings(max_examples=25)
each_mutation = pytest.mark.parametrize("name", MUTATIONS)


@each_mutation
@few
# The first draw of this one turns both bases alike: nearly all change must come from rescaling.
@example(seed=4893028, strength=0.875, rank=2, rslora=False, stretch=1.0, size=1.0)
@given(
    seed=st.integers(0, 2**63),
    strength=st.floats(1e-4, 0.999),
    rank=st.sampled_from([2, 3, 5, 12, 32]),
    rslora=st.booleans(),
    stretch=st.floats(0.1, 10),
    size=st.sampled_from([1e-25, 1e-9, 1.0, 1e9, 1e15]),
)
def test_any_seed_changes_every_touched_module_by_any_strength(
    make_adapter, name, seed, strength, rank, rslora, stretch, size
):
    parent = make_adapter(seed % 1000, r=rank, dtype=DOUBLE, use_rslora=rslora)
    parent = changed(regauged(parent, seed % 97, stretch), lambda a, b: (a, b * size))
    child = make_child([parent], name, seed, strength=strength)
    assert child.adapter.config == parent.config
    touched = 0
    for path, slot in child.adapter.slots.items():
        recorded = child.lineage.modules[path].relative_change
        assert recorded == pytest.approx(change(parent.slots[path], slot), rel=1e-5, abs=1e-12)
        assert dead_pairs(slot) == 0
        if recorded:
            assert recorded == pytest.approx(strength, rel=1e-5)
            touched += 1
    assert touched == (1 if name == "layer_selective_gaussian" else 4)


@each_mutation
@pytest.mark.parametrize(("strength", "zero"), [(0, False), (0.3, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strength_zero_and_a_fresh_adapter_give_the_parent_back(
    make_adapter, name, dtype, strength, zero
):
    parent = make_adapter(1, dtype=dtype, zero=zero)
    child = make_child([parent], name, 1, strength=strength)
    assert same(child.adapter, parent)
    for path, slot in child.adapter.slots.items():
        assert slot.A.data_ptr() != parent.slots[path].A.data_ptr()
        assert dead_pairs(slot) == 0
    assert child.lineage.relative_change == 0
    assert child.lineage.moments_valid
    assert {row.rank for row in child.lineage.modules.values()} == {0 if zero else 4}


@pytest.mark.parametrize("name", ["svd_structured", "subspace_rotation", "component_masking"])
@few
@given(seed=st.integers(0, 10**6), stretch=st.floats(0.01, 100))
def test_the_factorization_does_not_matter(make_adapter, name, seed, stretch):
    parent = make_adapter(seed % 97, dtype=DOUBLE, layers=1)
    others = (regauged(parent, seed, stretch), flipped(parent))
    child, *twins = (mutate(p, name, seed, 0.2).slots for p in (parent, *others))
    for path, slot in child.items():
        assert all(change(slot, twin[path]) < 1e-7 for twin in twins)
        if name == "svd_structured":  # which keeps the factorization as well: B G
            gauge = torch.linalg.lstsq(parent.slots[path].B, others[0].slots[path].B).solution
            wanted = slot.B @ gauge
            assert torch.allclose(twins[0][path].B, wanted, rtol=1e-6, atol=1e-8 * stretch)


def test_rotation_turns_equal_values_by_small_angles(make_adapter):
    """U and V turned alike would leave such an update where it is: the two must turn apart."""
    parent = make_adapter(3, r=2, dtype=DOUBLE, layers=1)
    parent = changed(
        parent, lambda a, b: (torch.linalg.qr(a.T).Q.T.contiguous(), torch.linalg.qr(b).Q)
    )
    slot = parent.slots[PATH]
    for seed in range(20):
        child = mutate(parent, "subspace_rotation", seed, 0.15).slots[PATH]
        assert change(slot, child) == pytest.approx(0.15, rel=1e-6)
        assert float((child.B - slot.B).norm() / slot.B.norm()) < 0.1501
        assert float((child.A - slot.A).norm() / slot.A.norm()) < 0.1501


def test_rotation_draws_again_where_a_draw_turns_back_too_soon(make_adapter, monkeypatch):
    first = torch.tensor([1.0, 1e-4, 1e-4], dtype=DOUBLE)
    parent = make_adapter(1, r=3, dtype=DOUBLE, layers=1)
    parent = changed(parent, lambda a, b: (a, b * first))

    def all_turned():
        for seed in range(228, 263):
            child = mutate(parent, "subspace_rotation", seed, 0.999)
            assert change(parent.slots[PATH], child.slots[PATH]) == pytest.approx(0.999, rel=1e-6)

    all_turned()
    monkeypatch.setattr("lora_evo.operators.mutations.DRAWS", 1)
    with pytest.raises(LoraEvoError, match=r"none of 1 .* \(rank 3\) by 0.999 .* smaller strength"):
        all_turned()


def test_rotation_refuses_an_update_of_rank_one(make_adapter):
    with pytest.raises(LoraEvoError, match=r"q_proj has rank 1.*svd_structured"):
        mutate(make_adapter(r=1), "subspace_rotation", 1)
    assert same(mutate(make_adapter(r=1), "subspace_rotation", 1, 0), make_adapter(r=1))


def test_rotation_leaves_a_module_of_rank_one_alone_and_says_so(home, make_adapter):
    parent = make_adapter(1, rank_pattern={"layers.1.self_attn.v_proj": 1})
    child = mutate(parent, "subspace_rotation", 1, 0.2)
    for path, slot in parent.slots.items():
        if slot.rank == 1:
            assert same(child.slots[path], slot)
        else:
            assert change(slot, child.slots[path]) == pytest.approx(0.2, rel=1e-4)
    save_adapter(parent, "p")
    said = call("mutate", "subspace_rotation", "p", "--out", "c", "--seed", "1").stdout
    assert "as in the parent: 1 modules, model.layers.1.self_attn.v_proj first" in said


@pytest.mark.parametrize("alive", [3, 4])
@pytest.mark.parametrize("operator", ["subspace_rotation", "svd_structured"])
def test_turns_keep_the_spaces_of_an_update(make_adapter, operator, alive):
    parent = changed(
        make_adapter(4, dtype=DOUBLE), lambda a, b: (a, b * (torch.arange(4) < alive).double())
    )
    for path, slot in mutate(parent, operator, 5, 0.4).slots.items():
        update = dense(slot)
        for side in (parent.slots[path].B[:, :alive], parent.slots[path].A[:alive].T):
            q = torch.linalg.qr(side).Q
            assert torch.allclose(q @ (q.T @ update), update, atol=1e-14)
            update = update.T
        assert dead_pairs(slot) == 0


def inner(parent, child, rank):
    """The child's update in the singular bases of the parent's."""
    u, _, vt = torch.linalg.svd(dense(parent), full_matrices=False)
    return u[:, :rank].T @ dense(child) @ vt[:rank].T


def test_masking_starts_masked_components_afresh(make_adapter):
    parent = make_adapter(2, r=8, dtype=DOUBLE)
    child = make_child([parent], "component_masking", 5, strength=0.4, tail=0)
    for path, slot in child.adapter.slots.items():
        fresh = int((slot.B == 0).all(dim=0).sum())
        assert 1 <= fresh < 8
        assert numerical_rank(singular_values(slot)) == 8 - fresh
        assert child.lineage.modules[path].rank == 8 - fresh
        lengths = slot.A.norm(dim=1)
        torch.testing.assert_close(lengths, lengths[:1].expand(8))
        assert slot.A.norm() == pytest.approx(float(parent.slots[path].A.norm()), rel=1e-9)
        left = inner(parent.slots[path], slot, 8)  # singular directions of the parent
        assert torch.allclose(left, torch.diag(left.diagonal()), atol=1e-13)


@pytest.mark.parametrize(("level", "share", "count"), [("module", 0.25, 3), ("layer", 0.5, 6)])
def test_layer_selective_touches_its_share_alone(make_adapter, level, share, count):
    parent = make_adapter(2, layers=8)
    for path in parent.paths[:4]:  # of two layers without an update, which are not chosen among
        parent.slots[path].B.zero_()
    given = {"strength": 0.2, "share": share, "level": level}
    child = make_child([parent], "layer_selective_gaussian", 5, **given)
    noisy = mutate(parent, "full_gaussian", 5, 0.2)
    touched = {p for p, row in child.lineage.modules.items() if row.relative_change}
    assert len(touched) == count
    assert len({path.split(".")[2] for path in touched}) <= 3
    for path, slot in child.adapter.slots.items():
        assert same(slot, (noisy if path in touched else parent).slots[path])
    assert not child.lineage.moments_valid


def test_without_rotation_singular_vectors_are_kept(make_adapter):
    parent = make_adapter(2, dtype=DOUBLE)
    child = mutate(parent, "svd_structured", 5, 0.4, rotation=0)
    left = inner(parent.slots[PATH], child.slots[PATH], 4)
    assert torch.allclose(left, torch.diag(left.diagonal()), atol=1e-14)


def test_overflow_of_half_precision_is_refused(make_adapter):
    parent = make_adapter(12, r=1, dtype=torch.float16, layers=1)
    parent = changed(parent, lambda a, b: (a, torch.full_like(b, 6e4)))
    with pytest.raises(LoraEvoError, match="does not fit in float16"):
        _ = [mutate(parent, "svd_structured", seed, 0.9) for seed in range(50)]  # half of them grow


@each_mutation
def test_no_pair_dies_in_twenty_generations(make_adapter, name):
    adapter = make_adapter(7, r=8, dtype=torch.bfloat16)
    for seed in range(20):
        adapter = mutate(adapter, name, seed, 0.3)
    assert not any(map(dead_pairs, adapter.slots.values()))


@each_mutation
def test_noise_depends_on_seed_and_module_alone(make_adapter, name):
    parent = make_adapter(10, r=12)
    every = {"share": 1} if name == "layer_selective_gaussian" else {}
    backwards = Adapter(parent.config, dict(reversed(parent.slots.items())))
    alone = Adapter(parent.config, {PATH: parent.slots[PATH]})
    torch.manual_seed(1)
    first = mutate(parent, name, 3, **every).slots[PATH]
    torch.manual_seed(2)
    for other in (backwards, alone):
        assert same(mutate(other, name, 3, **every).slots[PATH], first)
    assert not torch.equal(mutate(parent, name, 4, **every).slots[PATH].A, first.A)
    twins = Adapter(parent.config, dict.fromkeys(parent.slots, parent.slots[PATH]))
    children = mutate(twins, name, 3, **every).slots
    assert len({float(slot.A.sum()) for slot in children.values()}) == len(children)


@each_mutation
def test_views_give_the_same_child_as_copies_and_stay_as_they_are(make_adapter, name):
    parent = make_adapter(11, r=12)
    views = changed(parent, lambda a, b: (a.T.contiguous().T, b.T.contiguous().T))
    for slot in views.slots.values():
        slot.A.requires_grad_(True)
    child = mutate(views, name, 3)
    assert same(child, mutate(parent, name, 3))
    assert not any(slot.A.requires_grad for slot in child.slots.values())
    assert same(views, parent)
