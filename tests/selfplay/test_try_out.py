"""Bases of untested families: what is refused at opening, why, and what to type instead."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from small_models import small_model

from lora_evo.errors import LoraEvoError
from lora_evo.model import HFEngine, Request, stack_adapters
from lora_evo.model.base import BaseModel, load_base_model
from selfplay import SelfplayError, load_preset
from selfplay.config import LearnerConfig
from selfplay.learning.learner import Learner
from selfplay.learning.sft import make_examples
from selfplay.learning.try_out import check_targets, try_out, usable_targets

TOKENIZER = SimpleNamespace(eos_token_id=1, decode=lambda ids, **options: "")
CHECKPOINTED = {"gradient_checkpointing": True}


def tried(family, targets=None, learner=None, **changes):
    """Open a small random base as a run does, with adapters on these of its layers."""
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    model = small_model(family, leave_out=["head_dim"], **heads | changes)
    base = BaseModel("small", model, TOKENIZER, None, "")
    targets = tuple(targets or usable_targets(model))
    check_targets(base, targets)
    config = LearnerConfig(r=4, lora_alpha=8.0, target_modules=targets, **(learner or {}))
    opened = Learner(model, 0, ["t0", "s0"], config, seed=1, base_model="small")
    try_out(opened, TOKENIZER)
    return opened


@pytest.mark.parametrize("family", ["phi3", "glm", "nemotron", "starcoder2", "olmo2"])
def test_a_family_that_does_all_a_run_does_opens_and_members_are_as_before(family):
    learner = tried(family)
    for member in range(2):
        for name, p in learner.adapters.parameters_of(member).items():
            assert p.grad is None or not p.grad.any()
            assert name.endswith("lora_A") or not p.any()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("family", ["falcon", "gptj", "codegen", "gpt_bigcode", "mpt"])
def test_layers_are_checkpointed_whatever_a_family_calls_them(family):
    sizes = {"rotary_dim": 8} if family in ("gptj", "codegen") else {}
    tried(family, learner=CHECKPOINTED, **sizes)


@pytest.mark.parametrize("family", ["phi3", "glm", "nemotron", "starcoder2"])
def test_a_base_without_the_named_layers_says_which_it_has_and_the_setting_opens_it(family):
    with pytest.raises(SelfplayError, match=rf"is a {family}, and learner.target_modules") as error:
        tried(family, ("q_proj", "gate_proj", "up_proj"))
    (names,) = re.findall(r"--set 'learner.target_modules=\[(.*)\]'", str(error.value))
    tried(family, names.split(","))


def test_layers_that_get_rows_and_tokens_flattened_are_refused_by_name():
    with pytest.raises(SelfplayError, match="names fc1, fc2: expected some of") as error:
        tried("opt", ("q_proj", "fc1", "fc2"), ffn_dim=48, word_embed_proj_dim=32)
    assert "q_proj (2)" in str(error.value)


def test_members_that_are_another_model_in_peft_are_refused_and_the_advice_opens_the_base():
    pytest.importorskip("peft")
    every = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    with pytest.raises(SelfplayError, match=r"exported member in PEFT: .* leave them out") as error:
        tried("glm4_moe", every)
    lost = re.search(r"puts none on (.*): leave", str(error.value)).group(1).split(", ")
    assert set(lost) == {"gate_proj", "up_proj", "down_proj"}
    tried("glm4_moe", [name for name in every if name not in lost])


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("qwen3_5_text", "sampling: cannot decode"),
        ("bert-generation", "with and without what comes later"),
        ("mamba", "cannot decode"),
        ("gpt2", "none of its layers is a linear one"),
    ],
)
def test_what_would_fail_within_a_run_is_one_line_at_opening(family, words):
    with pytest.raises(
        SelfplayError, match=f"is a {family}, which cannot be trained here"
    ) as error:
        tried(family)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_layer_that_forgets_who_asks_is_noticed():
    """Not one of these comparisons passes whatever it is given."""

    def open_changed(change):
        model = small_model("phi3", num_attention_heads=4, num_key_value_heads=2)
        config = LearnerConfig(r=4, target_modules=tuple(usable_targets(model)))
        learner = Learner(model, 0, ["t0", "s0"], config, seed=1)
        change(learner)
        try_out(learner, TOKENIZER)

    def mix_rows(learner):
        forward = learner.model.model.layers[1].forward
        learner.model.model.layers[1].forward = lambda x, **k: forward(
            x + x.mean(0) * (x.shape[1] >= 10), **k
        )

    def lose_gradient(learner):
        forward = learner.model.model.norm.forward
        learner.model.model.norm.forward = lambda x: forward(x.detach() + 0 * x)

    def scale_saved(learner):
        export = learner.export

        def exported(member):
            adapter = export(member)
            slots = {p: replace(s, B=s.B * 2) for p, s in adapter.slots.items()}
            return replace(adapter, slots=slots)

        learner.export = exported

    for change, words in [
        (mix_rows, "alone and in a batch"),
        (lose_gradient, "its squared norm is 0"),
        (scale_saved, "in PEFT and here"),
    ]:
        with pytest.raises(SelfplayError, match=words):
            open_changed(change)


def test_a_base_whose_logits_are_not_numbers_is_called_that():
    model = small_model()
    model.lm_head.weight.data[3] = math.nan
    with pytest.raises(SelfplayError, match=r"logits are not finite in float32: .* dtype=float32"):
        Learner(model, 0, ["t0"], LearnerConfig(), seed=1)


def test_a_quantised_base_is_refused_with_what_to_load_instead(tmp_path, monkeypatch):
    class Linear4bit(torch.nn.Linear):
        """As bitsandbytes has it: packed bytes in place of the weights."""

        def __init__(self, like):
            super().__init__(like.in_features, like.out_features, bias=False)
            packed = torch.zeros(like.weight.numel() // 2, 1, dtype=torch.uint8)
            self.weight = torch.nn.Parameter(packed, requires_grad=False)

    def loaded(source, **options):
        model = small_model()
        model.model.layers[0].mlp.up_proj = Linear4bit(model.model.layers[0].mlp.up_proj)
        return model, {"missing_keys": [], "mismatched_keys": []}

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", loaded)
    with pytest.raises(
        LoraEvoError, match=r"is quantised: .*up_proj is a Linear4bit of uint8; exp"
    ):
        load_base_model("nano", torch.device("cpu"))


def test_a_base_with_code_of_its_own_asks_nobody(tmp_path, monkeypatch):
    small_model().config.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text().replace('"qwen2"', '"own"')
    entry = '{\n  "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Model"},'
    (tmp_path / "config.json").write_text(text.replace("{", entry, 1))
    (tmp_path / "own.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    with pytest.raises(LoraEvoError, match="cannot load the model"):
        load_base_model(str(tmp_path), torch.device("cpu"))


def test_a_sample_ends_where_the_base_reads_no_further():
    model = small_model(max_position_embeddings=12)
    model.config.eos_token_id = None
    engine = HFEngine(stack_adapters(model, ["a"], r=2, lora_alpha=4.0, seed=0), TOKENIZER)
    engine.end_tokens = (96,)
    (rollout,) = engine.generate([Request((5, 6, 7), "a", 40, temperature=1.0)])
    assert (len(rollout.completion_ids), rollout.finish_reason) == (9, "length")
    with pytest.raises(LoraEvoError, match="the prompt has 12 tokens and the model reads 12"):
        engine.generate([Request(tuple(range(3, 15)), "a", 1)])


def test_examples_need_an_end_token():
    tokenizer = SimpleNamespace(eos_token=None)
    with pytest.raises(SelfplayError, match="nano names no end token"):
        make_examples([], load_preset("nano"), tokenizer, print, 0)
