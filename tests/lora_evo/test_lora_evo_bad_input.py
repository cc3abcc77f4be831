"""What is wrong with the input is said in one line, and nothing is left behind."""

import json
import os
import pickle
import resource
import subprocess
import sys

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from lora_evo import content_hash, mutate_directory, save_adapter
from lora_evo.cli import main

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
Q = "base_model.model.model.layers.0.self_attn.q_proj"
MUTATE = "mutate svd_structured p1 --out c --seed 1"
CROSS = "cross average p2 p1 --out c --seed 1"
RESIZE = "resize p1 --rank 2 --out c"


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_adapter(make_adapter(1), tmp_path / "p1")
    save_adapter(make_adapter(2), tmp_path / "p2")
    return tmp_path


def refused(words, reason, code=2):
    """Run a command that must end in one line of stderr with no output and nothing on disk."""
    before = sorted(os.listdir("."))
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert sorted(os.listdir(".")) == before


def tensors(change):
    def apply(folder):
        held = load_file(folder / WEIGHTS)
        change(held)
        save_file(held, folder / WEIGHTS)

    return apply


def put(name, value):
    return tensors(lambda held: held.__setitem__(f"{Q}.{name}", value))


def config(**fields):
    def apply(folder):
        held = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**held, **fields}))

    return apply


def text(name, words):
    return lambda folder: (folder / name).write_text(words)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def cut(folder):
    os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size - 3)


DAMAGES = {
    "NaN": (put("lora_B.weight", torch.full((32, 4), float("nan"))), "NaN or infinite"),
    "Inf": (put("lora_A.weight", torch.full((4, 24), float("-inf"))), "NaN or infinite"),
    "half a pair": (tensors(lambda held: held.pop(f"{Q}.lora_B.weight")), "half a pair"),
    "shapes": (put("lora_A.weight", torch.ones(3, 24)), "does not fit together"),
    "rank": (config(r=8), "the configuration says 8"),
    "rank 0": (config(r=0), "at least 1"),
    "targets": (config(target_modules=["q_proj"]), "target_modules does not name"),
    "alpha": (config(lora_alpha=0), "above 0"),
    "huge alpha": (config(lora_alpha=10**400), "above 0"),
    "rslora": (config(use_rslora="false"), "expected true or false"),
    "unknown tensor": (put("lora_C.weight", torch.ones(1)), "unknown tensor"),
    "DoRA": (config(use_dora=True), "DoRA"),
    "DoRA tensor": (put("lora_magnitude_vector", torch.ones(3)), "DoRA"),
    "bias": (config(bias="all"), "bias"),
    "bias tensor": (put("lora_B.bias", torch.ones(3)), "bias"),
    "modules_to_save": (config(modules_to_save=["lm_head"]), "modules_to_save"),
    "truncated": (cut, "truncated or corrupt"),
    "empty file": (text(WEIGHTS, ""), "truncated or corrupt"),
    "huge header": (lambda f: (f / WEIGHTS).write_bytes(b"\xff" * 64), "truncated or corrupt"),
    "renamed pickle": (lambda f: (f / WEIGHTS).write_bytes(pickle.dumps([1])), "pickle"),
    "renamed checkpoint": (lambda f: torch.save({"a": torch.ones(1)}, f / WEIGHTS), "pickle"),
    "pickle": (lambda f: (f / WEIGHTS).rename(f / "adapter_model.bin"), "save_pretrained"),
    "broken JSON": (text(CONFIG, '{"r": 8,'), "is not JSON"),
    "deep JSON": (text(CONFIG, "[" * 200000), "is not JSON"),
    "list": (text(CONFIG, "[]"), "holds a list, not an object"),
    "no rank": (text(CONFIG, '{"lora_alpha": 1}'), "no field r"),
    "not text": (lambda f: (f / CONFIG).write_bytes(b"\xff\xfe{}"), "not UTF-8"),
    "no weights": (remove(WEIGHTS), "there is no adapter_model"),
    "empty folder": (remove(WEIGHTS, CONFIG), "has no adapter_config.json"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_adapter_is_refused_by_every_command(home, name):
    damage, reason = DAMAGES[name]
    damage(home / "p1")
    for words in (MUTATE, CROSS, RESIZE, "inspect p1", "distance p2 p1", "verify p1"):
        refused(words, reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"base": "other"}, "base_model_name_or_path"),
        ({"inputs": 20}, "adapters of the same base model"),
        ({"layers": 3}, "different modules"),
    ],
)
def test_parents_that_do_not_belong_together(home, make_adapter, change, reason):
    save_adapter(make_adapter(3, **change), home / "p3")
    refused("cross average p1 p3 --out c --seed 1", reason)
    refused("cross slot_swap p1 p2 p3 --out c --seed 1", reason)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("mutate svd_structured p1 --out p1/c --seed 1", "lies inside the parent"),
        ("mutate svd_structured p1 --out p1 --seed 1 --overwrite", "is a parent"),
        ("mutate svd_structured p1 --out p1/../p2 --seed 1", "exists already"),
        ("mutate svd_structured p1 --out p1/adapter_config.json/c --seed 1", "inside the parent"),
        ("mutate svd_structured p1 --out p2/adapter_config.json/c --seed 1", "is not a folder"),
        ("cross slot_swap p1 p2/../p1 --out c --seed 1", "given twice"),
        ("cross average p1 p2 --out c --seed 1 --weights 1,2,3", "3 weight(s) for 2 parents"),
        ("cross average p1 p2 --out c --seed 1 --weights 1,-2", "at least 0"),
        ("cross average p1 p2 --out c --seed 1 --weights nan,1", "at least 0"),
        ("cross average p1 p2 --out p2/c --seed 1", "lies inside the parent"),
        ("mutate full_gaussian p1 --out c --seed 1 --strength -1", "at least 0"),
        ("mutate full_gaussian p1 --out c --seed 1 --strength inf", "inf"),
    ],
)
def test_orders_that_cannot_be(home, words, reason):
    refused(words, reason)
    assert sorted(os.listdir("p1")) == [CONFIG, WEIGHTS]


LINEAGES = {
    "newer": (lambda record: record.update(format=2), "another version"),
    "no format": (lambda record: record.pop("format"), "damaged"),
    "field lost": (lambda record: record.pop("parents"), "damaged"),
    "field added": (lambda record: record.update(mood="good"), "damaged"),
    "no parents": (lambda record: record.update(parents=[]), "no parents"),
    "seed": (lambda record: record.update(seed="1"), "seed is '1'"),
    "operator": (lambda record: record.update(operator=None), "operator is None"),
    "change": (lambda record: record.update(relative_change="big"), "relative_change is 'big'"),
    "hash": (lambda record: record.update(content_hash=7), "content_hash is 7"),
    "modules": (lambda record: record.update(modules=[1]), "damaged"),
}


@pytest.mark.parametrize("name", LINEAGES)
def test_a_damaged_lineage(home, name):
    change, reason = LINEAGES[name]
    mutate_directory("svd_structured", "p1", "k", seed=1)
    record = json.loads((home / "k" / "lineage.json").read_text())
    change(record)
    (home / "k" / "lineage.json").write_text(json.dumps(record))
    for words in ("verify k", "lineage .", "mutate svd_structured k --out c --seed 1"):
        refused(words, reason)


def test_a_lineage_that_tells_contents_by_another_hash(home):
    mutate_directory("svd_structured", "p1", "k", seed=1)
    file = home / "k" / "lineage.json"
    kind = content_hash("p1").partition(":")[0]
    file.write_text(file.read_text().replace(f"{kind}:", "crc32:"))
    refused("verify k", f"by crc32, this version by {kind}; verify it with lora_evo 0.")


@pytest.mark.parametrize("words", ["", "{", "[]", "null", "[" * 200000, "\udcff"])
def test_a_lineage_that_is_no_record(home, words):
    mutate_directory("svd_structured", "p1", "k", seed=1)
    (home / "k" / "lineage.json").write_bytes(words.encode(errors="surrogateescape"))
    refused("verify k", "k: ")
    refused("lineage .", "k: ")
    refused("resize k --rank 1 --out c", "k: ")


def test_an_unreadable_file_is_one_line(home, monkeypatch):
    from pathlib import Path

    original = Path.open

    def locked(self, *args, **kwargs):
        if self.name == WEIGHTS and "p1" in self.parts:
            raise PermissionError(13, "Permission denied", str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", locked)
    for words in (MUTATE, CROSS, RESIZE, "inspect p1"):
        refused(words, f"Permission denied: {os.path.join('p1', WEIGHTS)}", code=1)


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (MUTATE, 512),
        (CROSS, 8192),
        ("mutate svd_structured p1 --out p2 --seed 1 --overwrite", 8192),
    ],
)
def test_a_disk_that_fills_up_in_mid_write(home, make_adapter, words, limit):
    for number in (1, 2):
        big = make_adapter(number, inputs=256, outputs=256)
        save_adapter(big, home / f"p{number}", overwrite=True)
    before = content_hash("p1"), content_hash("p2")
    done = subprocess.run(
        [sys.executable, "-B", "-m", "lora_evo", *words.split()],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir(".")) == ["p1", "p2"]
    assert (content_hash("p1"), content_hash("p2")) == before
