"""What leaves a run loads elsewhere without us."""

import peft
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from selfplay_command import command, refused, worked

PROMPT = "<|solve_o|>def f(a):\n    return a + 2<|input|>3<|think|>"


def logits(model, tokenizer):
    with torch.no_grad():
        return model.eval()(**tokenizer(PROMPT, return_tensors="pt")).logits


def test_adapter_and_merged_model_load_by_their_path_and_agree(whole, tmp_path):
    base, adapter, merged = (tmp_path / name for name in ("base", "adapter", "merged"))
    worked("nano", "export", "--out", base)
    worked("export", whole, "s0", "--out", adapter)
    worked("export", whole, "s0", "--out", merged, "--merge")
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = logits(AutoModelForCausalLM.from_pretrained(base), tokenizer)
    with_adapter = logits(peft.AutoPeftModelForCausalLM.from_pretrained(adapter), tokenizer)
    whole = logits(
        AutoModelForCausalLM.from_pretrained(merged), AutoTokenizer.from_pretrained(merged)
    )
    assert torch.allclose(with_adapter, whole, atol=1e-4)
    assert not torch.allclose(plain, whole, atol=1e-2)


def test_what_is_not_there_or_in_the_way_is_named(whole, tmp_path):
    refused(command("export", whole, "s9", "--out", tmp_path / "s9"), "no member 's9'", "s0, s1")
    (tmp_path / "taken").mkdir()
    assert "exists" in command("export", whole, "s0", "--out", tmp_path / "taken").output
    assert "exists" in command("nano", "export", "--out", tmp_path / "taken").output
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
