"""The configuration: PEFT's rules for rank, alpha and scale; what is refused."""

import json
import re

import pytest

from lora_evo import AdapterConfig, LoraEvoError


def config(**fields):
    base = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]}
    return AdapterConfig.from_json(json.dumps({**base, **fields}))


def test_unknown_fields_come_back_as_they_were():
    fields = {"lora_dropout": 0.05, "layers_pattern": None, "a_future_field": {"x": [1, 2]}}
    again = json.loads(config(**fields).to_json())
    assert {name: again[name] for name in fields} == fields
    assert AdapterConfig.from_json(json.dumps(again)) == config(**fields)


def test_fingerprint_ignores_order_of_targets_and_who_wrote_it():
    one = config(target_modules=["q_proj", "v_proj"], inference_mode=True, peft_version="1")
    two = config(target_modules=["v_proj", "q_proj"], inference_mode=False, peft_version="2")
    assert one.fingerprint() == two.fingerprint()
    assert one.fingerprint() != config(target_modules=["v_proj"]).fingerprint()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias"),
        ({"lora_bias": True}, "lora_bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens"),
        ({"layer_replication": [[0, 2], [1, 3]]}, "layer_replication"),
        ({"peft_type": "IA3"}, "IA3"),
        ({"r": 0}, "at least 1"),
        ({"r": 8.0}, "whole number"),
        ({"lora_alpha": -1}, "above 0"),
        ({"lora_alpha": 10**400}, "above 0"),
        ({"use_rslora": "false"}, "expected true or false"),
        ({"lora_alpha": "16"}, "above 0"),
        ({"rank_pattern": {"q_proj": 0}}, "rank_pattern"),
        ({"rank_pattern": [1]}, "rank_pattern"),
        ({"rank_pattern": {"(": 1}}, "pattern"),
        ({"target_modules": 3}, "target_modules"),
        ({"target_modules": "("}, "pattern"),
    ],
)
def test_refusals_name_the_field(fields, words):
    with pytest.raises(LoraEvoError, match=re.escape(words)):
        config(**fields)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"r": 8}', "null"])
def test_damaged_text_is_refused(text):
    with pytest.raises(LoraEvoError, match="adapter_config"):
        AdapterConfig.from_json(text)


@pytest.mark.parametrize(
    ("targets", "hit"),
    [(["q_proj"], True), (["proj"], False), (r".*\.q_proj", True), ("q_proj", False), (None, True)],
)
def test_targets_match_as_in_peft(targets, hit):
    assert config(target_modules=targets).targets("model.layers.0.self_attn.q_proj") is hit


@pytest.mark.parametrize("start", ["PiSSA", "corda", "lora_ga", "loftq", "of_next_year", ["pissa"]])
def test_a_start_out_of_the_base_is_refused_by_name(start):
    """Those that PEFT begins without data are tried with PEFT itself."""
    problem = config(init_lora_weights=start).start_problem
    assert problem.startswith(f"init_lora_weights is {start!r}")
    assert "\n" not in problem
    assert not any(config(init_lora_weights=s).start_problem for s in ("eva", None))
