"""Mutations: exact strength, live ranks, what each of them keeps, and what is refused."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lora_evo import (
    Adapter,
    LoraEvoError,
    Slot,
    load_adapter,
    mutate,
    mutate_directory,
    save_adapter,
    verify,
)
from lora_evo.children import make_child
from lora_evo.operators.operator import OPERATORS, stream
from lora_evo.operators.spectral import masked_values
from lora_evo.updates import adapter_gap, dead_pairs, numerical_rank, singular_values

MUTATIONS = [name for name, operator in OPERATORS.items() if operator.kind == "mutation"]
PATH = "model.layers.0.self_attn.q_proj"
DOUBLE = torch.float64
few = settings(max_examples=25, deadline=None)
each_mutation = pytest.mark.parametrize("name", MUTATIONS)


def dense(slot):
    return slot.scale * slot.B.double() @ slot.A.double()


def change(parent, child):
    before = dense(parent)
    return float(torch.linalg.norm(dense(child) - before) / torch.linalg.norm(before))


def with_factors(adapter, turn):
    return Adapter(
        adapter.config,
        {path: Slot(*turn(slot.A, slot.B), slot.scale) for path, slot in adapter.slots.items()},
    )


def with_gauge(adapter, seed, stretch=1.0):
    """The same updates from other factors (B G, G^-1 A), G far from orthogonal."""

    def turn(a, b):
        noise = torch.Generator().manual_seed(seed)
        gauge = torch.randn(len(a), len(a), generator=noise, dtype=DOUBLE)
        gauge = stretch * (torch.linalg.qr(gauge).Q + 0.1 * gauge)
        return torch.linalg.solve(gauge, a.double()).to(a.dtype), (b.double() @ gauge).to(b.dtype)

    return with_factors(adapter, turn)


@each_mutation
@pytest.mark.parametrize("rank", [2, 4, 16, 32])
def test_the_update_of_every_touched_module_changes_by_the_strength(make_adapter, name, rank):
    for number, strength in enumerate((0.003, 0.05, 0.15, 0.5, 0.95)):
        parent = make_adapter(rank + number, r=rank, inputs=40, outputs=56)
        if number % 2:
            parent = with_gauge(parent, number, stretch=0.3)
        child = make_child([parent], name, number, strength=strength)
        assert child.adapter.config == parent.config
        touched = 0
        for path, slot in child.adapter.slots.items():
            assert slot.A.shape == parent.slots[path].A.shape
            assert slot.B.shape == parent.slots[path].B.shape
            told = child.lineage.modules[path].relative_change
            assert told == pytest.approx(change(parent.slots[path], slot), rel=1e-3, abs=1e-6)
            if told:
                assert told == pytest.approx(strength, rel=1e-5)
                touched += 1
        assert touched == (1 if name == "layer_selective_gaussian" else 4)


@each_mutation
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strength_zero_gives_the_parent_back(make_adapter, name, dtype):
    parent = make_adapter(1, dtype=dtype)
    child = make_child([parent], name, 1, strength=0)
    for path, slot in child.adapter.slots.items():
        assert torch.equal(slot.A, parent.slots[path].A)
        assert torch.equal(slot.B, parent.slots[path].B)
        assert slot.A.data_ptr() != parent.slots[path].A.data_ptr()
    assert child.lineage.relative_change == 0
    assert child.lineage.moments_valid
    assert {row.rank for row in child.lineage.modules.values()} == {4}


@each_mutation
def test_a_fresh_adapter_stays_as_it_is(make_adapter, name):
    parent = make_adapter(6, zero=True)
    child = make_child([parent], name, 1, strength=0.3)
    for path, slot in child.adapter.slots.items():
        assert torch.equal(slot.A, parent.slots[path].A)
        assert torch.equal(slot.B, parent.slots[path].B)
        assert dead_pairs(slot) == 0
    assert child.lineage.relative_change == 0


@pytest.mark.parametrize("name", ["svd_structured", "subspace_rotation", "component_masking"])
@few
@given(seed=st.integers(0, 10**6), stretch=st.floats(0.01, 100))
def test_the_factorization_does_not_matter(make_adapter, name, seed, stretch):
    parent = make_adapter(seed % 97, dtype=DOUBLE, layers=1)
    other = with_gauge(parent, seed, stretch)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=DOUBLE)
    flipped = with_factors(parent, lambda a, b: (signs[:, None] * a, b * signs))
    one, two, three = (mutate(p, name, seed, 0.2).slots for p in (parent, other, flipped))
    for path in one:
        assert change(one[path], two[path]) < 1e-7
        assert change(one[path], three[path]) < 1e-7


@pytest.mark.parametrize("name", ["full_gaussian", "neftune"])
def test_a_common_rescaling_does_not_matter_to_noise_but_the_factorization_does(make_adapter, name):
    parent = make_adapter(5, dtype=DOUBLE)
    rescaled = with_factors(parent, lambda a, b: (a / 50, b * 50))
    one, two = (mutate(p, name, 3, 0.2).slots[PATH] for p in (parent, rescaled))
    assert change(one, two) < 1e-7
    assert change(one, mutate(with_gauge(parent, 1), name, 3, 0.2).slots[PATH]) > 0.01


def test_rotation_keeps_spectrum_spaces_and_balance(make_adapter):
    parent = make_adapter(2, dtype=DOUBLE)
    slot, child = parent.slots[PATH], mutate(parent, "subspace_rotation", 5, 0.6).slots[PATH]
    torch.testing.assert_close(singular_values(child), singular_values(slot), rtol=1e-9, atol=0.0)
    q = torch.linalg.qr(slot.B).Q
    assert torch.allclose(q @ (q.T @ child.B), child.B, atol=1e-14)
    q = torch.linalg.qr(slot.A.T).Q
    assert torch.allclose(q @ (q.T @ child.A.T), child.A.T, atol=1e-14)
    mild = mutate(parent, "subspace_rotation", 5, 0.15).slots[PATH]
    assert 0.8 < mild.A.norm() / slot.A.norm() < 1.25
    assert 0.8 < mild.B.norm() / slot.B.norm() < 1.25


def test_rotation_turns_equal_values_by_small_angles(make_adapter):
    """U and V turned alike would leave such an update where it is: the two must turn apart."""
    parent = make_adapter(3, r=2, dtype=DOUBLE, layers=1)
    parent = with_factors(
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
    parent = with_factors(parent, lambda a, b: (a, b * first))

    def all_turned():
        for seed in range(228, 263):
            child = mutate(parent, "subspace_rotation", seed, 0.999)
            assert change(parent.slots[PATH], child.slots[PATH]) == pytest.approx(0.999, rel=1e-6)

    all_turned()
    monkeypatch.setattr("lora_evo.operators.spectral.DRAWS", 1)
    with pytest.raises(LoraEvoError, match=r"none of 1 .* \(rank 3\) by 0.999 .* smaller strength"):
        all_turned()


@pytest.mark.parametrize("operator", ["subspace_rotation", "svd_structured"])
def test_turns_keep_the_spaces_of_an_update_short_of_rank(make_adapter, operator):
    parent = with_factors(
        make_adapter(4, dtype=DOUBLE), lambda a, b: (a, torch.cat((b[:, :3], 0 * b[:, :1]), dim=1))
    )
    child = mutate(parent, operator, 5, 0.4)
    for path, slot in child.slots.items():
        update = dense(slot)
        for side in (parent.slots[path].B[:, :3], parent.slots[path].A[:3].T):
            q = torch.linalg.qr(side).Q
            assert torch.allclose(q @ (q.T @ update), update, atol=1e-14)
            update = update.T
        assert dead_pairs(slot) == 0


def test_masking_starts_masked_components_afresh(make_adapter):
    parent = make_adapter(2, r=8, dtype=DOUBLE)
    child = make_child([parent], "component_masking", 5, strength=0.4, tail=0)
    for path, slot in child.adapter.slots.items():
        fresh = (slot.B == 0).all(dim=0)
        assert 1 <= int(fresh.sum()) < 8
        assert numerical_rank(singular_values(slot)) == 8 - int(fresh.sum())
        assert child.lineage.modules[path].rank == 8 - int(fresh.sum())
        lengths = slot.A.norm(dim=1)
        torch.testing.assert_close(lengths, lengths[:1].expand(8))
        assert slot.A.norm() == pytest.approx(float(parent.slots[path].A.norm()), rel=1e-9)
        # What is left are singular directions of the parent.
        u, _, vt = torch.linalg.svd(dense(parent.slots[path]), full_matrices=False)
        inner = u[:, :8].T @ dense(slot) @ vt[:8].T
        assert torch.allclose(inner, torch.diag(inner.diagonal()), atol=1e-13)


def test_masking_prefers_the_tail_by_its_parameter():
    values = torch.tensor([8.0, 4.0, 2.0, 1.0], dtype=DOUBLE)
    values /= values.norm()
    hits = {}
    for tail in (0.0, 2.0):
        noise = torch.Generator().manual_seed(0)
        points = torch.rand(300, 4, dtype=DOUBLE, generator=noise)
        # The third or the fourth fits into this strength, but not both.
        masked = [masked_values(values, -row.log(), 0.22, tail)[1] for row in points]
        hits[tail] = torch.stack(masked).double().mean(dim=0)
    assert hits[0.0][:2].tolist() == hits[2.0][:2].tolist() == [0, 0]
    assert hits[0.0][3] == pytest.approx(0.5, abs=0.1)
    assert hits[2.0][3] == pytest.approx(0.8, abs=0.1)


def test_layer_selective_touches_its_share_alone(make_adapter):
    parent = make_adapter(2, layers=6)
    child = make_child([parent], "layer_selective_gaussian", 5, strength=0.2, share=0.25)
    whole = mutate(parent, "full_gaussian", 5, 0.2)
    touched = {p for p, row in child.lineage.modules.items() if row.relative_change}
    assert len(touched) == 3
    for path, slot in child.adapter.slots.items():
        source = whole if path in touched else parent
        assert torch.equal(slot.A, source.slots[path].A)
        assert torch.equal(slot.B, source.slots[path].B)
    assert not child.lineage.moments_valid
    layers = make_child(
        [parent], "layer_selective_gaussian", 5, strength=0.2, share=0.5, level="layer"
    )
    touched = {p for p, row in layers.lineage.modules.items() if row.relative_change}
    assert len(touched) == 6
    assert len({path.split(".")[2] for path in touched}) == 3


def test_neftune_leaves_b_and_draws_uniform_noise(make_adapter):
    parent = make_adapter(2, r=8, inputs=500, dtype=DOUBLE)
    child = mutate(parent, "neftune", 5, 0.2)
    for path, slot in child.slots.items():
        assert torch.equal(slot.B, parent.slots[path].B)
        noise = slot.A - parent.slots[path].A
        # Uniform on (-b, b): the largest is sqrt(3) times the root mean square, and no more.
        assert abs(float(noise.mean() / noise.abs().mean())) < 0.1
        assert float(noise.abs().max() / noise.square().mean().sqrt()) == pytest.approx(
            math.sqrt(3), rel=0.03
        )


def test_gaussian_noise_keeps_the_relative_size_of_the_factors(make_adapter):
    parent = make_adapter(2, r=8, inputs=400, outputs=400, dtype=DOUBLE)
    child = mutate(parent, "full_gaussian", 5, 0.2).slots[PATH]
    slot = parent.slots[PATH]
    steps = [
        float((new - old).norm() / old.norm())
        for new, old in ((child.A, slot.A), (child.B, slot.B))
    ]
    assert steps[0] == pytest.approx(steps[1], rel=0.1)


@pytest.mark.parametrize(
    ("name", "given_", "words"),
    [
        *((name, {"strength": -0.1}, "at least 0") for name in MUTATIONS),
        *((name, {"strength": 1.0}, "below 1") for name in MUTATIONS),
        ("neftune", {"strength": math.nan}, "strength is nan"),
        ("neftune", {"epsilon": 0.1}, "no parameter 'epsilon'"),
        ("neftune", {"seed": -1}, "seed"),
        ("svd_structured", {"rotation": "much"}, "rotation"),
        ("component_masking", {"tail": -1}, "tail is -1; expected a number from 0 to 10"),
        ("component_masking", {"tail": True}, "tail is True"),
        ("layer_selective_gaussian", {"share": 0}, "share is 0; expected above 0"),
        ("layer_selective_gaussian", {"share": 1.5}, "share is 1.5"),
        ("layer_selective_gaussian", {"shaer": 1}, "did you mean 'share'"),
        ("layer_selective_gaussian", {"level": "tensor"}, "one of module, block, layer"),
    ],
)
def test_refusals(make_adapter, name, given_, words):
    with pytest.raises(LoraEvoError, match=words):
        mutate(make_adapter(), name, **{"seed": 1, **given_})


def test_rotation_refuses_an_update_of_rank_one(make_adapter):
    with pytest.raises(LoraEvoError, match=r"q_proj has rank 1.*svd_structured"):
        mutate(make_adapter(r=1), "subspace_rotation", 1)
    other = make_child([make_adapter(r=1)], "subspace_rotation", 1, strength=0)
    assert other.lineage.relative_change == 0


@few
# The first draw of this one turns both bases alike: nearly all change must come from rescaling.
@example(name="svd_structured", seed=4893028, strength=0.875, rank=2, rslora=False)
@given(
    name=st.sampled_from(MUTATIONS),
    seed=st.integers(0, 2**63),
    strength=st.floats(1e-4, 0.999),
    rank=st.sampled_from([2, 3, 5, 12]),
    rslora=st.booleans(),
)
def test_any_seed_reaches_any_strength(make_adapter, name, seed, strength, rank, rslora):
    parent = make_adapter(seed % 1000, r=rank, dtype=DOUBLE, use_rslora=rslora, layers=1)
    child = mutate(parent, name, seed, strength)
    changes = [change(parent.slots[path], slot) for path, slot in child.slots.items()]
    assert max(changes) == pytest.approx(strength, rel=1e-5)
    assert all(dead_pairs(slot) == 0 for slot in child.slots.values())


def test_without_rotation_singular_vectors_are_kept(make_adapter):
    parent = make_adapter(2, dtype=DOUBLE)
    slot = parent.slots[PATH]
    spectral = mutate(parent, "svd_structured", 5, 0.4, rotation=0).slots[PATH]
    u, _, vt = torch.linalg.svd(dense(slot), full_matrices=False)
    inner = u[:, :4].T @ dense(spectral) @ vt[:4].T
    assert torch.allclose(inner, torch.diag(inner.diagonal()), atol=1e-14)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), stretch=st.floats(0.01, 100))
def test_svd_structured_keeps_the_factorization(make_adapter, seed, stretch):
    parent = make_adapter(seed % 97, dtype=DOUBLE)
    noise = torch.randn(4, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))
    gauge = stretch * (torch.linalg.qr(noise).Q + 0.1 * noise)
    other = with_factors(parent, lambda a, b: (torch.linalg.solve(gauge, a), b @ gauge))
    one = mutate(parent, "svd_structured", seed, 0.2)
    two = mutate(other, "svd_structured", seed, 0.2)
    for path, slot in one.slots.items():
        assert torch.allclose(two.slots[path].B, slot.B @ gauge, rtol=1e-6, atol=1e-8 * stretch)


def test_deficient_ill_conditioned_and_narrow_factors(make_adapter):
    def deficient(a, b):
        return a, torch.cat((b[:, :2], b[:, :1], 0 * b[:, :1]), dim=1)

    def stretched(a, b):
        return torch.cat((a[:3], a[:1] + 1e-6 * a[3:])), b

    wide = make_adapter(8, dtype=DOUBLE)
    for parent in (
        with_factors(wide, deficient),
        with_factors(wide, stretched),
        make_adapter(9, r=40, inputs=24, outputs=16, dtype=DOUBLE),
    ):
        child = mutate(parent, "svd_structured", 1, 0.2)
        assert adapter_gap(parent, child).relative_change == pytest.approx(0.2, rel=1e-6)


def test_unknown_operator_and_wrong_kind(make_adapter):
    with pytest.raises(LoraEvoError, match="did you mean 'svd_structured'"):
        mutate(make_adapter(), "svd_structure", 1)
    with pytest.raises(LoraEvoError, match="crossover, not a mutation"):
        mutate(make_adapter(), "slot_swap", 1)


def test_overflow_of_half_precision_is_refused(make_adapter):
    parent = with_factors(
        make_adapter(12, r=1, dtype=torch.float16, layers=1),
        lambda a, b: (a, torch.full_like(b, 6e4)),
    )
    growing = next(n for n in range(50) if stream(n, PATH, "turns", "0").standard_normal() > 0.5)
    with pytest.raises(LoraEvoError, match="does not fit in float16"):
        mutate(parent, "svd_structured", growing, 0.9)


def test_nan_in_memory_is_refused(make_adapter):
    parent = make_adapter()
    parent.slots[PATH].A[0, 0] = math.inf
    with pytest.raises(LoraEvoError, match="NaN or infinite"):
        mutate(parent, "svd_structured", 1)


def gradients(slot, seed):
    """Gradients of a random squared error of the module's output, for A and for B."""
    noise = torch.Generator().manual_seed(seed)
    a, b = (factor.detach().double().requires_grad_() for factor in (slot.A, slot.B))
    x = torch.randn(64, a.shape[1], dtype=torch.float64, generator=noise)
    target = torch.randn(64, b.shape[0], dtype=torch.float64, generator=noise)
    (x @ a.T @ b.T * slot.scale - target).square().sum().backward()
    return a.grad, b.grad


def trained(slot, seed):
    """One step of gradient descent, a hundredth of the size of the factors."""
    grad_a, grad_b = gradients(slot, seed)
    size = slot.A.double().norm() + slot.B.double().norm()
    step = 0.01 * size / (grad_a.norm() + grad_b.norm())
    return Slot(
        (slot.A.double() - step * grad_a).to(slot.A.dtype),
        (slot.B.double() - step * grad_b).to(slot.B.dtype),
        slot.scale,
    )


@each_mutation
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_pair_dies_in_twenty_generations(make_adapter, name, dtype):
    adapter = make_adapter(7, r=8, dtype=dtype)
    for seed in range(20):
        adapter = mutate(adapter, name, seed, 0.3)
    for slot in adapter.slots.values():
        assert dead_pairs(slot) == 0
        grad_a, grad_b = gradients(slot, 0)
        pairs = grad_a.norm(dim=1) + grad_b.norm(dim=0)
        assert float(pairs.min()) > 1e-3 * float(pairs.max())
        assert numerical_rank(singular_values(trained(slot, 0))) == 8


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
        assert torch.equal(mutate(other, name, 3, **every).slots[PATH].A, first.A)
        assert torch.equal(mutate(other, name, 3, **every).slots[PATH].B, first.B)
    assert not torch.equal(mutate(parent, name, 4, **every).slots[PATH].A, first.A)
    twins = Adapter(parent.config, dict.fromkeys(parent.slots, parent.slots[PATH]))
    same = mutate(twins, name, 3, **every).slots
    assert len({float(slot.A.sum()) for slot in same.values()}) == len(same)


@each_mutation
def test_views_give_the_same_child_as_copies_and_stay_as_they_are(make_adapter, name):
    parent = make_adapter(11, r=12)
    slots = {
        path: Slot(slot.A.T.contiguous().T, slot.B.T.contiguous().T, slot.scale)
        for path, slot in parent.slots.items()
    }
    for slot in slots.values():
        slot.A.requires_grad_(True)
    child = mutate(Adapter(parent.config, slots), name, 3)
    wanted = mutate(parent, name, 3)
    for path, slot in child.slots.items():
        assert torch.equal(slot.A, wanted.slots[path].A)
        assert torch.equal(slot.B, wanted.slots[path].B)
        assert not slot.A.requires_grad
        assert torch.equal(slots[path].A, parent.slots[path].A)


@each_mutation
@pytest.mark.parametrize("size", [1e-25, 1e-9, 1e9, 1e15])
def test_factors_of_any_size(make_adapter, name, size):
    parent = make_adapter(12, r=8)
    slots = {path: Slot(s.A, s.B * size, s.scale) for path, s in parent.slots.items()}
    parent = Adapter(parent.config, slots)
    child = make_child([parent], name, 3, strength=0.2)
    assert adapter_gap(parent, child.adapter).relative_change == pytest.approx(
        child.lineage.relative_change, rel=1e-3
    )
    assert max(row.relative_change for row in child.lineage.modules.values()) == pytest.approx(
        0.2, rel=1e-5
    )


@each_mutation
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_directories_give_the_child_of_memory_and_verify(tmp_path, make_adapter, name, dtype):
    parent = make_adapter(3, dtype=dtype, layers=3)
    save_adapter(parent, tmp_path / "p")
    mutate_directory(name, tmp_path / "p", tmp_path / "c", seed=5)
    assert verify(tmp_path / "c").identical
    wanted = mutate(parent, name, 5)
    for path, slot in load_adapter(tmp_path / "c").slots.items():
        assert slot.A.dtype == slot.B.dtype == dtype
        assert torch.equal(slot.A, wanted.slots[path].A)
        assert torch.equal(slot.B, wanted.slots[path].B)


@each_mutation
def test_factors_wider_than_the_module_and_narrow_modules(make_adapter, name):
    for shape in ({"r": 40, "inputs": 24, "outputs": 16}, {"r": 8, "inputs": 6, "outputs": 64}):
        parent = make_adapter(9, dtype=torch.float64, **shape)
        child = make_child([parent], name, 1, strength=0.2)
        assert adapter_gap(parent, child.adapter).relative_change == pytest.approx(
            child.lineage.relative_change, rel=1e-6
        )
        assert all(dead_pairs(slot) == 0 for slot in child.adapter.slots.values())
        for path, row in child.lineage.modules.items():
            assert row.rank == numerical_rank(singular_values(child.adapter.slots[path]))
