"""Mutations over generations, storage types, shapes and PEFT: nothing dies, nothing drifts."""

import pytest
import torch

from lora_evo import Adapter, Slot, load_adapter, mutate, mutate_directory, save_adapter, verify
from lora_evo.children import make_child
from lora_evo.linalg.updates import dead_pairs, numerical_rank, relative_change, singular_values
from lora_evo.operators.catalogue import OPERATORS

MUTATIONS = [name for name, operator in OPERATORS.items() if operator.kind == "mutation"]
PATH = "model.layers.0.self_attn.q_proj"
each_mutation = pytest.mark.parametrize("name", MUTATIONS)


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
    assert relative_change(parent, child.adapter) == pytest.approx(
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
@pytest.mark.parametrize(
    ("dtype", "floor"),
    [(torch.float32, 1e-5), (torch.float16, 1e-3), (torch.bfloat16, 6e-3)],
)
def test_storage_rounding_is_the_only_error(make_adapter, name, dtype, floor):
    parent = make_adapter(1, dtype=dtype)
    child = make_child([parent], name, 1, strength=0.15)
    assert {slot.A.dtype for slot in child.adapter.slots.values()} == {dtype}
    assert abs(relative_change(parent, child.adapter) - child.lineage.relative_change) < floor


@each_mutation
def test_factors_wider_than_the_module_and_narrow_modules(make_adapter, name):
    for shape in ({"r": 40, "inputs": 24, "outputs": 16}, {"r": 8, "inputs": 6, "outputs": 64}):
        parent = make_adapter(9, dtype=torch.float64, **shape)
        child = make_child([parent], name, 1, strength=0.2)
        assert relative_change(parent, child.adapter) == pytest.approx(
            child.lineage.relative_change, rel=1e-6
        )
        assert all(dead_pairs(slot) == 0 for slot in child.adapter.slots.values())
        for path, row in child.lineage.modules.items():
            assert row.rank == numerical_rank(singular_values(child.adapter.slots[path]))
