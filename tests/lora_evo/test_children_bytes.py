"""The bytes of children: for equal inputs they never change, from one version to the next.

They are equal on one build of torch and one kind of processor, `MACHINE`; elsewhere a projection of
the children is compared, which rounding hardly moves.
"""

import hashlib

import numpy
import pytest
import torch
from by_hand import child_of
from processors import machine

from lora_evo import OPERATORS, Adapter, AdapterConfig, Slot

MACHINE = "torch 2.13.0, x86_64 AuthenticAMD, AVX2"
RECORDED = {
    "svd_structured": ("8c786cc61fde7917", 3.6083),
    "subspace_rotation": ("40ef476e931f4f68", 3.6172),
    "component_masking": ("3be563dfb2151b5b", 3.0509),
    "full_gaussian": ("d71741da40bb9315", 3.0152),
    "layer_selective_gaussian": ("cf90c32d5f31d0dd", 2.9577),
    "slot_swap": ("1d005a343fefe144", 1.2539),
    "svd_subspace": ("2386ea3da1ba0b11", 2.6062),
    "dare": ("b6db3ecc35f10066", 1.6401),
    "extrapolate": ("200c14920fe7b41f", 3.7073),
    "average": ("5c1c030c720704cb", 2.5025),
    "factor_dare": ("0a0f8e12267dabbd", 6.8665),
    "factor_extrapolate": ("1010965539b396c4", 3.4707),
    "merge_linear": ("5c1c030c720704cb", 2.5025),
    "merge_svd": ("5c1c030c720704cb", 2.5025),
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
    if machine() == MACHINE:
        assert found[0] == digest
