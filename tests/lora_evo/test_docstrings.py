"""The examples in docstrings are true."""

from docstrings import run_examples

import lora_evo

FUNCTIONS = [
    "load_adapter", "mutate", "cross", "merge", "write_child", "distance", "save_adapter",
]  # fmt: skip


def test_examples_in_docstrings_are_true(make_adapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        lora_evo.save_adapter(make_adapter(seed + 1, r=8), f"members/t{seed}")
    run_examples(lora_evo, FUNCTIONS)
