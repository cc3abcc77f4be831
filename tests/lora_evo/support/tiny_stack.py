"""A Qwen2 of two layers with random weights, and PEFT twins of stacked members as the oracle."""

import copy
from types import SimpleNamespace

import pytest
import torch
from small_models import small_model

from lora_evo.model import stream
from lora_evo.model.stacked_linear import BASE
from lora_evo.model.stacked_lora import export_adapter, stack_adapters

MEMBERS = ("t0", "t1", "s0")
R, ALPHA = 4, 8.0
VOCABULARY = 96


def numbers(seed, *shape):
    return torch.from_numpy(stream(seed).standard_normal(shape)).float()


def tiny_qwen():
    model = small_model(
        hidden_size=64,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    for i, (_, p) in enumerate(sorted(model.named_parameters())):
        if p.ndim > 1:
            p.data.copy_(numbers(i, *p.shape) * (0.5 if p.shape[0] == VOCABULARY else 0.15))
        elif i % 2:
            p.data.add_(numbers(i, *p.shape) * 0.1)
    return model


@torch.no_grad()
def shake(adapters):
    """Give every member a B of its own, so that members differ from the base and each other."""
    for member in range(len(adapters.members)):
        for i, p in enumerate(adapters.parameters_of(member).values()):
            if i % 2:
                p.copy_(numbers(1000 * (member + 1) + i, *p.shape) * 0.1)


def peft_twin(base, adapters):
    """A PEFT model on a copy of `base` with adapters equal to the stacked members."""
    peft = pytest.importorskip("peft")
    targets = export_adapter(adapters, 0, None).config.to_dict()["target_modules"]
    config = peft.LoraConfig(r=adapters.r, lora_alpha=adapters.lora_alpha, target_modules=targets)
    with torch.random.fork_rng():
        twin = peft.get_peft_model(copy.deepcopy(base), config, adapter_name=adapters.members[0])
        for name in adapters.members[1:]:
            twin.add_adapter(name, config)
    for index, member in enumerate(adapters.members):
        for name, p in adapters.parameters_of(index).items():
            peft_parameter(twin, member, name).data.copy_(p.data)
    return twin.eval()


def peft_parameter(twin, member, name):
    path, _, kind = name.rpartition(".")
    module = twin.get_submodule(f"base_model.model.{path}")
    return getattr(module, kind)[member].weight


def check_against_peft(base, adapters, twin, rows, ids, atol=2e-5, rtol=1e-4):
    """Logits and gradients of a batch, row i through member rows[i], equal those of the twin."""
    with adapters.route(rows):
        logits = adapters.model(input_ids=ids).logits
    weights = numbers(5, *logits.shape)
    (logits * weights).sum().backward()
    for member in sorted(set(rows)):
        mine = torch.tensor([i for i, m in enumerate(rows) if m == member])
        if member == BASE:
            with torch.no_grad():
                expected = base(input_ids=ids[mine]).logits
        else:
            name = adapters.members[member]
            twin.set_adapter(name)
            expected = twin(input_ids=ids[mine]).logits
            (expected * weights[mine]).sum().backward()
            for path, p in adapters.parameters_of(member).items():
                wanted = peft_parameter(twin, name, path).grad
                slack = rtol * float(wanted.abs().max()) / 10
                assert torch.allclose(p.grad, wanted, rtol=rtol, atol=slack)
        size = float(expected.detach().abs().max())
        assert torch.allclose(logits[mine], expected, atol=atol * max(1.0, size))
    return logits.detach()


def stacked(members=MEMBERS):
    """A base model, and a stack of shaken members on a copy of it."""
    base = tiny_qwen()
    adapters = stack_adapters(copy.deepcopy(base), members, r=R, lora_alpha=ALPHA, seed=7)
    shake(adapters)
    return base, adapters


@pytest.fixture(scope="session")
def tiny():
    return SimpleNamespace(
        qwen=tiny_qwen,
        stacked=stacked,
        shake=shake,
        peft_twin=peft_twin,
        peft_parameter=peft_parameter,
        check_against_peft=check_against_peft,
        numbers=numbers,
        members=MEMBERS,
        r=R,
        alpha=ALPHA,
        vocabulary=VOCABULARY,
    )
