"""Small adapters made on the spot, the same ones by other factors, and their dense updates.

The children of any operator, in memory and in directories; and changes of files.
"""

import json

import torch
from safetensors.torch import load_file, save_file

import lora_evo
from lora_evo import OPERATORS, Adapter, AdapterConfig, Slot

DOUBLE = torch.float64


def build_adapter(
    seed=0, *, r=4, alpha=8, inputs=24, outputs=32, layers=2, dtype=torch.float32, zero=False,
    base="tiny", **settings,
):  # fmt: skip
    """An adapter with LoRA's usual look: A at its initial scale, B small with decaying columns."""
    config = AdapterConfig.new(
        r=r,
        lora_alpha=alpha,
        target_modules=["q_proj", "v_proj"],
        base_model_name_or_path=base,
        **settings,
    )
    noise = torch.Generator().manual_seed(seed)
    slots = {}
    for layer in range(layers):
        for name in ("q_proj", "v_proj"):
            path = f"model.layers.{layer}.self_attn.{name}"
            rank = config.rank(path)
            a = (torch.rand(rank, inputs, generator=noise) * 2 - 1) / inputs**0.5
            b = 0.02 * torch.randn(outputs, rank, generator=noise) / torch.arange(1, rank + 1)
            b = torch.zeros(outputs, rank) if zero else b
            slots[path] = Slot(a.to(dtype), b.to(dtype), config.scale(path))
    return Adapter(config, slots)


def changed(adapter, turn):
    """The adapter with every A and B as `turn` returns them."""
    slots = {path: Slot(*turn(s.A, s.B), s.scale) for path, s in adapter.slots.items()}
    return Adapter(adapter.config, slots)


def doubled(adapter):
    return changed(adapter, lambda a, b: (a.double(), b.double()))


def regauged(adapter, seed, stretch=1.0):
    """The same updates from other factors (B G, G^-1 A), G far from orthogonal."""

    def turn(a, b):
        noise = torch.randn(len(a), len(a), generator=torch.Generator().manual_seed(seed)).double()
        gauge = stretch * (torch.linalg.qr(noise).Q + 0.1 * noise)
        return torch.linalg.solve(gauge, a.double()).to(a.dtype), (b.double() @ gauge).to(b.dtype)

    return changed(adapter, turn)


def flipped(adapter):
    """The same updates with the signs of some pairs turned."""

    def turn(a, b):
        signs = 1.0 - 2 * (torch.arange(len(a)) % 3 == 1).to(a.dtype)
        return a * signs[:, None], b * signs

    return changed(adapter, turn)


def dense(slot):
    """The update [out, in], in float64."""
    return slot.scale * slot.B.double() @ slot.A.double()


def whole(adapter):
    """All updates as one vector, in float64."""
    return torch.cat([dense(adapter.slots[path]).flatten() for path in adapter.paths])


def change(parent, child):
    """Relative change of one slot's update, from dense matrices."""
    before = dense(parent)
    return float(torch.linalg.norm(dense(child) - before) / torch.linalg.norm(before))


def same(one, two):
    """Whether two slots have the same bits, or two adapters in all slots."""
    if isinstance(one, Adapter):
        return one.paths == two.paths and all(same(one.slots[p], two.slots[p]) for p in one.paths)
    return one.A.dtype == two.A.dtype and torch.equal(one.A, two.A) and torch.equal(one.B, two.B)


def child_of(name, parents, seed=5, **given):
    """The child of an operator: of all parents, of a mutation the first one's."""
    if OPERATORS[name].kind == "mutation":
        return lora_evo.mutate(parents[0], name, seed, **given)
    if OPERATORS[name].kind == "merge":
        return lora_evo.merge(parents, name.removeprefix("merge_"), seed=seed, **given)
    return lora_evo.cross(parents, name, seed, **given)


def breed(name, parents, out):
    """The same from directories into a directory; returns the record."""
    used = parents[:1] if OPERATORS[name].kind == "mutation" else parents
    return lora_evo.write_child(name, used, out, seed=5)


def edit_json(file, fields):
    """Change these fields of a file, as of a configuration."""
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def edit_weights(folder, change):
    """Change a folder's tensors in place, or to those that `change` returns."""
    file = folder / "adapter_model.safetensors"
    held = load_file(file)
    save_file(change(held) or held, file)
