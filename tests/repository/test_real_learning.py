"""`make real-learning` on a tiny random model: it resumes, and measures all arms."""

import json
from pathlib import Path

import pytest
from programs import python
from small_models import small_model

from lora_evo.model import load_tokenizer

REAL = Path(__file__).parents[2] / "benchmarks" / "small_model"
SCRIPT = REAL / "learning.py"
SHIPPED = REAL.parents[1] / "selfplay" / "src" / "selfplay" / "data" / "easy_code_o.jsonl"


def test_the_easy_tasks_are_right_and_written_by_their_generator(tmp_path):
    written = tmp_path / "again.jsonl"
    python(REAL / "easy_tasks.py", written)  # it runs them
    assert written.read_bytes() == SHIPPED.read_bytes()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tokenizer = load_tokenizer("nano")
    size = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 1}
    size["max_position_embeddings"] = 2048  # a prompt of a character a token is long
    small_model("llama", head_dim=8, **size).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def arms(base: Path, out: Path, *options: str) -> list[tuple[str, int]]:
    common = ("--base", base, "--seeds", "1", "--every", "1", "--jobs", "1")
    python(SCRIPT, out, *common, *options)
    return [(row["arm"], row["updates"]) for row in json.loads((out / "results.json").read_text())]


@pytest.mark.slow
def test_it_resumes_where_it_was(base: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert arms(base, parts, "--updates", "1")[2:] == [("learning", 1), ("control", 1)]
    found = arms(base, parts, "--updates", "2")
    assert found == [
        ("untouched", 0), ("start", 0),
        ("learning", 1), ("learning", 2), ("control", 1), ("control", 2),
    ]  # fmt: skip
    assert arms(base, whole, "--updates", "2") == found
    for name in ("start", "learning", "control"):
        one, other = (
            json.loads((out / "seed-1" / f"{name}.json").read_text())["measured"]
            for out in (whole, parts)
        )
        assert [row["rates"] for row in one] == [row["rates"] for row in other]
        assert [row["entropy"] for row in one] == [row["entropy"] for row in other]
