"""What is wrong with the input is said in one line, and nothing is left behind."""

import json
import os
from importlib.util import find_spec

import pytest
from full_disk import no_file_above
from lora_evo_command import call, refused

from lora_evo import content_hash, save_adapter, write_child

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
MODEL = pytest.mark.skipif(not find_spec("transformers"), reason="needs the extra `model`")
WRONG = [
    (
        "mutate svd_structred p1 --out c --seed 1",
        "no mutation 'svd_structred' (did you mean 'svd_structured'?)",
    ),
    ("cross svd_structured p1 p2 --out c --seed 1", "is a mutation, not a crossover; use `mutate`"),
    ("mutate svd_structured nowhere --out c --seed 1", "not a folder"),
    ("mutate svd_structured p1 --out p2 --seed 1", "exists already"),
    ("mutate svd_structured p1 --out c --seed 1 --set rotation", "NAME=VALUE"),
    ("cross average p1 p2 --seed 1 --out c --weights a,b", "joined by commas"),
    ("cross average p1 p2 --seed 1 --out p2/c", "or lies inside it"),
    ("mutate svd_structured p1 --out p1 --seed 1 --overwrite", "is the parent"),
    ("mutate svd_structured p1 --out p2/adapter_config.json/c --seed 1", "is not a folder"),
    ("cross slot_swap p1 p2/../p1 --out c --seed 1", "given twice"),
    ("verify p1", "its parents are not known"),
    ("lineage nowhere", "not a folder"),
    ("retention p1", "no lineage.json, so its parents are not known"),
    ("retention p2 --model base", "--model and --train need each other"),
    pytest.param("retention p2 --parent p1 --model p1 --train bad.jsonl", "2: exp", marks=MODEL),
]


@pytest.mark.parametrize(("words", "reason"), WRONG)
def test_wrong_usage(home, words, reason):
    (home / "bad.jsonl").write_text('{"prompt": "ab", "completion": "c"}\n{"prompt": "ab"}\n')
    refused(words, reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"base": "other"}, "base_model_name_or_path"),
        ({"inputs": 20}, "20 to 32 in another"),
        ({"layers": 3}, "different modules"),
    ],
)
def test_parents_that_do_not_belong_together(home, make_adapter, change, reason):
    save_adapter(make_adapter(3, **change), home / "p3")
    refused("cross average p1 p3 --out c --seed 1", reason)
    refused("cross slot_swap p1 p2 p3 --out c --seed 1", reason)


def test_a_damaged_lineage(home):
    write_child("svd_structured", ["p1"], "k", seed=1)
    file = home / "k" / "lineage.json"
    record = json.loads(file.read_text())
    for change, reason in (
        *(({"strength": ...}, "damaged ('strength')"), ({"mood": "good"}, "damaged")),
        *(({"parents": []}, "no parents"), ({"modules": [1]}, "damaged")),
        *(({"seed": "1"}, "seed is '1'"), ({"content_hash": 7}, "content_hash is 7")),
    ):
        kept = {name: value for name, value in (record | change).items() if value is not ...}
        file.write_text(json.dumps(kept))
        for words in ("verify k", "mutate svd_structured k --out c --seed 1"):
            refused(words, reason)
    for text in ("", "{", "[]", "[" * 200000, "\udcff"):
        file.write_bytes(text.encode(errors="surrogateescape"))
        refused("verify k", "k: ")


@pytest.mark.parametrize("damaged", [WEIGHTS, CONFIG, "lineage.json"])
def test_commands_over_a_folder_name_what_they_cannot_read_and_continue(home, damaged):
    for name in ("bad", "good"):
        write_child("svd_structured", ["p1"], name, seed=1)
    (home / "bad" / damaged).write_text("{")
    for words in ("lineage . --json", "lineage ."):
        result = call(*words.split(), code=1)
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: bad")
        if words.endswith("--json"):
            found = json.loads(result.stdout)
            assert [each["name"] for each in found] == ["good", "p1", "p2"]


@pytest.mark.parametrize("limit", [512, 8192])
def test_a_disk_that_fills_up_in_mid_write(home, make_adapter, limit):
    for number in (1, 2):
        big = make_adapter(number, inputs=256, outputs=256)
        save_adapter(big, home / f"p{number}", overwrite=True)
    before = content_hash("p1"), content_hash("p2")
    with no_file_above(limit):
        words = "mutate svd_structured p1 --out p2 --seed 1 --overwrite"
        said = call(*words.split(), code=1).stderr
    assert "File too large" in said
    assert len(said.splitlines()) == 1
    assert sorted(os.listdir(".")) == ["p1", "p2"]
    assert (content_hash("p1"), content_hash("p2")) == before
