import copy
import math

import pytest
import torch
from probabilities import ROUNDING
from small_models import small_model
from tiny_families import other_model
from transformers import AutoConfig, AutoModelForCausalLM

from lora_evo import Adapter, AdapterConfig, LoraEvoError, Slot
from lora_evo.model.stacked_linear import BASE
from lora_evo.model.stacked_lora import (
    export_adapter,
    import_adapter,
    merge_adapter,
    put_on,
    stack_adapters,
)

ROUTES = {
    "equal groups": [0, 0, 1, 1, 2, 2],
    "ragged groups with the base": [BASE, 0, 0, 2, BASE, 1],
    "one member": [1, 1, 1, 1, 1, 1],
    "unsorted": [2, 0, 1, 2, 0, 1],
}


def tokens(tiny, rows, length):
    values = tiny.numbers(99, rows, length).mul(1000).long().abs()
    return values % tiny.vocabulary


@pytest.mark.parametrize("length", [3, 24])
@pytest.mark.parametrize("rows", ROUTES.values(), ids=ROUTES)
def test_forward_and_gradients_equal_peft(tiny, rows, length):
    base, adapters = tiny.stacked()
    twin = tiny.peft_twin(base, adapters)
    ids = tokens(tiny, len(rows), length)
    logits = tiny.check_against_peft(base, adapters, twin, rows, ids)
    with torch.no_grad(), adapters.route(rows):
        assert torch.allclose(adapters.model(input_ids=ids).logits, logits, atol=ROUNDING)


def test_flattened_tokens_are_read_by_row_and_layers_of_experts_are_refused(tiny):
    _, adapters = tiny.stacked()
    layer = next(iter(adapters.layers.values()))
    x = tiny.numbers(5, 3, 4, layer.base.in_features)
    with torch.no_grad(), adapters.route([0, 2, BASE]):
        expected = layer(x)
        assert torch.equal(layer(x.flatten(0, 1)), expected.flatten(0, 1))
        assert torch.equal(layer(x[:, None]), expected[:, None])
        for fewer in (x.flatten(0, 1)[:11], x[:2]):
            with pytest.raises(LoraEvoError, match="the route has 3 rows"):
                layer(fewer)
    with pytest.raises(LoraEvoError, match="leave that one out"):
        print(layer.weight)
    experts = torch.nn.ModuleDict({"experts": torch.nn.ModuleList([torch.nn.Linear(4, 4)])})
    with pytest.raises(LoraEvoError, match=r"experts.0 is of an expert"):
        put_on(experts, {"experts.0": experts["experts"][0]}, ["a"], 2, 2.0)


@pytest.mark.parametrize(
    ("family", "name", "words"),
    [
        ("gpt2", "c_attn", "none: no layer of this family is an nn.Linear.*another family"),
        ("jamba", "dt_proj", "in_proj, x_proj"),
        ("mamba", "out_proj", "among in_proj, x_proj"),
        ("qwen3_next", "up_proj", r"\(experts cannot\); .*shared_expert_gate"),
    ],
)
def test_families_with_other_layers_say_which_they_have(family, name, words):
    options = {"n_embd": 32, "n_head": 2, "n_layer": 1, "vocab_size": 96}
    config = AutoConfig.for_model("gpt2", **options)
    model = AutoModelForCausalLM.from_config(config) if family == "gpt2" else other_model(family)[0]
    with pytest.raises(LoraEvoError, match=f"no linear layer named {name} .*{words}"):
        stack_adapters(model, ["a"], r=2, lora_alpha=2.0, target_modules=[name], seed=1)


def test_nothing_of_the_base_is_trained(tiny):
    _, adapters = tiny.stacked()
    own = {id(p) for m in range(3) for p in adapters.parameters_of(m).values()}
    assert {id(p) for p in adapters.model.parameters() if p.requires_grad} == own


def test_outside_of_a_route_the_model_is_the_base_and_fresh_members_equal_it(tiny):
    base = tiny.qwen()
    adapters = stack_adapters(copy.deepcopy(base), ["a", "b"], r=2, lora_alpha=4, seed=1)
    ids = tokens(tiny, 2, 20)
    with torch.no_grad():
        expected = base(input_ids=ids).logits
        assert torch.equal(adapters.model(input_ids=ids).logits, expected)
        with adapters.route([0, 1]):
            assert torch.equal(adapters.model(input_ids=ids).logits, expected)


def test_initial_values_depend_on_seed_name_and_module_only(tiny):
    def first(members, seed):
        stack = stack_adapters(tiny.qwen(), members, r=2, lora_alpha=4, seed=seed)
        return stack.parameters_of(stack.index("b"))

    one, same, other = first(["a", "b"], 1), first(["b", "c", "d"], 1), first(["a", "b"], 2)
    assert all(torch.equal(p, same[name]) for name, p in one.items())
    for name, p in one.items():
        if name.endswith("lora_A"):
            bound = 1 / math.sqrt(p.shape[1])
            assert not torch.equal(p, other[name])
            assert p.abs().max() <= bound
            assert p.abs().max() > 0.8 * bound
        else:
            assert not p.any()


def test_an_inner_route_is_undone(tiny):
    _, adapters = tiny.stacked()
    ids = tokens(tiny, 1, 20)
    with torch.no_grad(), adapters.route([1]):
        before = adapters.model(input_ids=ids).logits
        with adapters.route([2]):
            assert not torch.equal(adapters.model(input_ids=ids).logits, before)
        with pytest.raises(ValueError, match="route has 1 rows, the batch 2"), adapters.route([2]):
            adapters.model(input_ids=tokens(tiny, 2, 20))
        assert torch.equal(adapters.model(input_ids=ids).logits, before)


@pytest.mark.parametrize("rows", [[0, 0, 1], [0, 2, 2], [2, 0, 1, 2]])
def test_unchanged_adapters_give_the_same_bits_and_new_weights_are_seen_afterwards(tiny, rows):
    _, adapters = tiny.stacked()
    ids = tokens(tiny, len(rows), 24)
    own = [p for m in range(3) for p in adapters.parameters_of(m).values()]

    def passes():
        with adapters.route(rows):
            logits = [adapters.model(input_ids=ids).logits for _ in range(2)]
        found = torch.autograd.grad(sum(logits).square().sum(), own, allow_unused=True)
        return [t for t in (*logits, *found) if t is not None]

    for _ in range(2):
        plain = passes()
        with adapters.unchanged():
            kept = passes()
        assert len(plain) == len(kept)
        assert all(torch.equal(a, b) for a, b in zip(plain, kept, strict=True))
        tiny.shake(adapters)
        with torch.no_grad():
            own[0].add_(0.1)


def test_import_keeps_the_update_when_the_scale_differs(tiny):
    _, adapters = tiny.stacked()
    there = stack_adapters(tiny.qwen(), ["x"], r=tiny.r, lora_alpha=2 * tiny.alpha, seed=0)
    tiny.shake(there)
    import_adapter(adapters, 1, export_adapter(there, 0, None))
    for path, layer in adapters.layers.items():
        theirs = there.layers[path]
        update = layer.scales[1] * layer.lora_B[1] @ layer.lora_A[1]
        assert torch.allclose(update, theirs.scales[0] * theirs.lora_B[0] @ theirs.lora_A[0])


def test_an_adapter_that_does_not_fit_is_refused_and_changes_nothing(tiny):
    _, adapters = tiny.stacked()
    good = export_adapter(adapters, 1, None)
    before = [p.clone() for p in adapters.parameters_of(0).values()]
    path = list(good.slots)[-1]
    fewer = {k: v for k, v in good.slots.items() if k != path}
    slot = good.slots[path]
    wrong = {**good.slots, path: Slot(torch.zeros(tiny.r, 3), slot.B, slot.scale)}
    for slots, message in ((fewer, "they differ in"), (wrong, "expected")):
        with pytest.raises(ValueError, match=message):
            import_adapter(adapters, 0, Adapter(good.config, slots))
    assert all(
        torch.equal(p, b) for p, b in zip(adapters.parameters_of(0).values(), before, strict=True)
    )


def test_a_merge_that_would_change_more_or_less_than_the_adapter_is_refused(tiny):
    qwen, gpt = tiny.qwen(), small_model("gpt2", n_embd=32, n_layer=1, n_head=2)
    square = "transformer.h.0.attn.c_proj"  # a Conv1D, whose weights are the transpose
    for model, path, out, words in (
        (qwen, "lm_head", tiny.vocabulary, "lm_head has its weights in common with another layer"),
        (gpt, square, 32, f"has no linear module {square}"),
    ):
        width = 64 if model is qwen else 32
        config = AdapterConfig.new(r=2, lora_alpha=2, target_modules=["q_proj", path])
        slots = {path: Slot(torch.ones(2, width), torch.ones(out, 2), 1.0)}
        if model is qwen:
            first = "model.layers.0.self_attn.q_proj"
            slots = {first: Slot(torch.ones(2, 64), torch.ones(64, 2), 1.0), **slots}
        before = copy.deepcopy(model.state_dict())
        with pytest.raises(LoraEvoError, match=words):
            merge_adapter(model, Adapter(config, slots))
        assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())


def test_wrong_arguments(tiny):
    for change, message in (
        ({"members": []}, "one or more different names"),
        ({"members": ["a", "a"]}, "one or more different names"),
        ({"r": 0}, "rank r is 0; expected 1 to 64"),
        ({"r": 10**9}, "rank r is 1000000000"),
    ):
        arguments = {"members": ["a"], "r": 2, "lora_alpha": 4, "seed": 0} | change
        with pytest.raises(ValueError, match=message):
            stack_adapters(tiny.qwen(), **arguments)
