"""The configuration: PEFT's rules for rank, alpha and scale; what is refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import AdapterConfig, LoraEvoError


def config(**fields):
    base = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]}
    return AdapterConfig.from_json(json.dumps({**base, **fields}))


def test_a_file_as_peft_writes_it_comes_back_as_it_was():
    fields = {
        "alpha_pattern": {"q_proj": 64, "0.q_proj": 8}, "base_model_name_or_path": None,
        "lora_alpha": 16, "peft_type": "LORA", "r": 64, "rank_pattern": {},
        "target_modules": ["v_proj", "q_proj"], "use_rslora": False, "x": {"b": 1, "a": 2},
    }  # fmt: skip
    one = AdapterConfig.from_json(json.dumps(fields))
    assert one.to_json() == json.dumps(fields, indent=2) + "\n"
    changes = {"r": 32, "lora_alpha": 8.0, "alpha_pattern": {}}
    assert one.of_rank(32).to_json() == json.dumps({**fields, **changes}, indent=2) + "\n"


PARTS = st.sampled_from(["model", "layers", "0", "1", "12", "h", "q_proj", "proj", "lm_head", "q"])
PATHS = st.lists(PARTS, min_size=1, max_size=6).map(".".join)
REGEXES = st.sampled_from(
    [r".*q_proj", r"model\.layers\.\d+\..*", "q", ".*", r"(model|h)\..*proj", r"\d+", "layers"]
)
NAMES = st.lists(st.one_of(PATHS, PARTS), max_size=4)


@given(
    targets=st.one_of(NAMES, REGEXES),
    excluded=st.one_of(st.none(), NAMES, REGEXES),
    layers=st.one_of(st.none(), st.integers(0, 2), st.lists(st.integers(0, 12), max_size=3)),
    pattern=st.one_of(
        st.none(), PARTS, st.just(""), st.lists(st.one_of(PARTS, REGEXES), max_size=2)
    ),
    ranks=st.dictionaries(st.one_of(PATHS, REGEXES), st.integers(1, 9), max_size=4),
    alphas=st.dictionaries(st.one_of(PATHS, REGEXES), st.integers(1, 9), max_size=4),
    paths=st.lists(PATHS, min_size=1, max_size=12),
)
@settings(max_examples=200)
def test_a_module_gets_what_peft_gives_it(targets, excluded, layers, pattern, ranks, alphas, paths):
    peft = pytest.importorskip("peft")
    from peft.tuners.tuners_utils import _ExcludedModule, check_target_module_exists
    from peft.utils.other import get_pattern_key

    fields = {
        "target_modules": targets, "exclude_modules": excluded, "layers_to_transform": layers,
        "layers_pattern": pattern, "rank_pattern": ranks, "alpha_pattern": alphas,
    }  # fmt: skip
    try:
        theirs = peft.LoraConfig(r=8, lora_alpha=16, **fields)
    except ValueError:
        with pytest.raises(LoraEvoError, match="layers_"):
            config(**fields)
        return
    ours = config(**fields)
    for path in paths:
        hit = check_target_module_exists(theirs, path)
        assert ours.adapts(path) == (bool(hit) and not isinstance(hit, _ExcludedModule))
        if ours.adapts(path):
            assert ours.rank(path) == ranks.get(get_pattern_key(ranks, path), 8)
            assert ours.alpha(path) == alphas.get(get_pattern_key(alphas, path), 16)
            assert ours.scale(path) == ours.alpha(path) / ours.rank(path)


def test_fingerprint_ignores_order_of_targets_and_who_wrote_it():
    one = config(target_modules=["q_proj", "v_proj"], inference_mode=True, peft_version="1")
    two = config(target_modules=["v_proj", "q_proj"], inference_mode=False, peft_version="2")
    assert one.fingerprint() == two.fingerprint()
    assert one.fingerprint() != config(target_modules=["v_proj"]).fingerprint()
    # The first pattern that fits counts.
    one, two = ({"q_proj": 64, "0.q_proj": 8}, {"0.q_proj": 8, "q_proj": 64})
    assert config(alpha_pattern=one).fingerprint() != config(alpha_pattern=two).fingerprint()
