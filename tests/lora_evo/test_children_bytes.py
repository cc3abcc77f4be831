"""The bytes of children: for equal inputs they never change, from one version to the next.

They are equal on one build of torch and one kind of processor; elsewhere a projection of the
children is compared, which rounding hardly moves.
"""

import hashlib

import numpy
import pytest
import torch
from by_hand import child_of

from lora_evo import OPERATORS, Adapter, AdapterConfig, Slot

BUILD = ("2.13.0+cpu", "AVX2")
RECORDED = {
    "svd_structured": ("1aaf855b7baa5a02", 3.6083),
    "subspace_rotation": ("58367eaf5f181b8b", 3.6172),
    "component_masking": ("4092e4f67064e3e2", 3.0509),
    "full_gaussian": ("2ff75518d6d03dfe", 3.0152),
    "layer_selective_gaussian": ("d99b4c1412a0b310", 2.9577),
    "slot_swap": ("1d005a343fefe144", 1.2539),
    "svd_subspace": ("3c56cc6446399e1a", 2.6062),
    "dare": ("05e9aafb85e6fbb6", 1.6401),
    "extrapolate": ("73ef85b3d08513d9", 3.7073),
    "average": ("79928fbbf44695fa", 2.5025),
    "factor_dare": ("0a0f8e12267dabbd", 6.8665),
    "factor_extrapolate": ("1010965539b396c4", 3.4707),
    "merge_linear": ("79928fbbf44695fa", 2.5025),
    "merge_svd": ("79928fbbf44695fa", 2.5025),
    "merge_ties": ("cab51757578a0f09", 4.0228),
    "merge_dare_linear": ("61e8f59b4b57a029", 2.0695),
    "merge_dare_ties": ("50cf33d7b5d36a73", 2.1170),
    "merge_cat": ("2950fee30d3dccf5", 2.8756),
}
"""The first digits of SHA-256 over all factors, and a projection, by operator."""


def drawn(seed, dtype, alpha=8.0):
    """A random adapter, the same on every platform."""
    noise = numpy.random.Generator(numpy.random.Philox(seed))
    config = AdapterConfig.new(r=4, lora_alpha=alpha, target_modules=["q_proj", "up_proj"])
    slots = {}
    for layer in range(2):
        for name, shape in (("self_attn.q_proj", (24, 32)), ("mlp.up_proj", (48, 32))):
            a = torch.from_numpy(noise.standard_normal((4, shape[1])) * 0.3).to(dtype)
            b = torch.from_numpy(noise.standard_normal((shape[0], 4)) * 0.1).to(dtype)
            slots[f"model.layers.{layer}.{name}"] = Slot(a, b, alpha / 4)
    return Adapter(config, slots)


def child(name, dtype, seed):
    given = {"strength": 0.2} if OPERATORS[name].kind == "mutation" else {}
    return child_of(name, [drawn(1, dtype), drawn(2, dtype, alpha=5.0)], seed, **given)


def digest_and_projection(name):
    found, projection = hashlib.sha256(), 0.0
    for dtype in (torch.float32, torch.bfloat16):
        for seed in (1, 7):
            made = child(name, dtype, seed)
            for path in made.paths:
                slot = made.slots[path]
                for factor in (slot.A, slot.B):
                    found.update(factor.view(torch.uint8).numpy().tobytes())
                projection += float((slot.B.double() @ slot.A.double())[0].sum())
    return found.hexdigest()[:16], projection


@pytest.mark.parametrize("name", OPERATORS)
def test_children_of_a_seed_keep_their_bytes(name):
    digest, projection = RECORDED[name]
    found = digest_and_projection(name)
    assert found[1] == pytest.approx(projection, rel=0.01, abs=0.01)
    if (torch.__version__, torch.backends.cpu.get_cpu_capability()) == BUILD:
        assert found[0] == digest
