"""Weights in several files, and how much memory a child takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from lora_evo import (
    FileDamage,
    content_hash,
    cross_directory,
    load_adapter,
    mutate_directory,
    save_adapter,
    verify,
)

WEIGHTS = "adapter_model.safetensors"
INDEX = "adapter_model.safetensors.index.json"


def split(folder, parts=3):
    """Turn the weights of a folder into shards, as large checkpoints are saved."""
    tensors = load_file(folder / WEIGHTS)
    places = {}
    for part in range(parts):
        name = f"adapter_model-{part + 1:05d}-of-{parts:05d}.safetensors"
        shard = {key: tensors[key] for key in sorted(tensors)[part::parts]}
        save_file(shard, folder / name, metadata={"format": "pt"})
        places |= dict.fromkeys(shard, name)
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return places


@pytest.fixture
def home(tmp_path, make_adapter):
    for number in (1, 2):
        save_adapter(make_adapter(number), tmp_path / f"p{number}")
        save_adapter(make_adapter(number), tmp_path / f"s{number}")
        split(tmp_path / f"s{number}")
    return tmp_path


def test_shards_are_the_adapter_they_were_cut_from(home):
    assert content_hash(home / "s1") == content_hash(home / "p1")
    for whole, sharded in (("p1", "s1"), ("p2", "s2")):
        one, two = load_adapter(home / whole), load_adapter(home / sharded)
        assert all((one.slots[path].A == two.slots[path].A).all() for path in one.paths)


def test_children_of_sharded_parents_are_single_files_of_the_same_bytes(home):
    mutate_directory("svd_structured", home / "p1", home / "c1", seed=1)
    mutate_directory("svd_structured", home / "s1", home / "c2", seed=1, threads=2)
    cross_directory("average", [home / "s1", home / "p2"], home / "d1", seed=1)
    cross_directory("average", [home / "p1", home / "s2"], home / "d2", seed=1)
    for one, two in (("c1", "c2"), ("d1", "d2")):
        assert sorted(p.name for p in (home / two).iterdir()) == [
            "adapter_config.json", WEIGHTS, "lineage.json",
        ]  # fmt: skip
        assert (home / one / WEIGHTS).read_bytes() == (home / two / WEIGHTS).read_bytes()
    assert verify(home / "d1", [home / "s1", home / "s2"]).identical


def test_an_overwritten_sharded_adapter_is_read_from_its_new_file(home, make_adapter):
    save_adapter(make_adapter(2), home / "s1", overwrite=True)
    assert content_hash(home / "s1") == content_hash(home / "p2")


def edit(change):
    def apply(folder, places):
        change(places)
        (folder / INDEX).write_text(json.dumps({"weight_map": places}))

    return apply


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f, p: (f / INDEX).write_text("{"), "is not JSON"),
        (lambda f, p: (f / INDEX).write_text("[]"), "no weight_map"),
        (lambda f, p: (f / INDEX).write_text('{"weight_map": {}}'), "no weight_map"),
        (lambda f, p: (f / INDEX).unlink(), "shards of the weights but no"),
        (lambda f, p: (f / min(p.values())).unlink(), "which is not there"),
        (lambda f, p: (f / min(p.values())).write_bytes(b"x" * 40), "truncated or corrupt"),
        (edit(lambda p: p.update({min(p): "../p1/" + WEIGHTS})), "file beside it"),
        (edit(lambda p: p.update({min(p): 3})), "file beside it"),
        (edit(lambda p: p.update(extra=min(p.values()))), "but it is not"),
        (edit(lambda p: p.pop(min(p))), "does not place there"),
    ],
)
def test_damaged_shards_are_refused_by_name(home, damage, words):
    damage(home / "s1", json.loads((home / "s1" / INDEX).read_text())["weight_map"])
    with pytest.raises(FileDamage, match=words) as caught:
        load_adapter(home / "s1")
    assert str(home / "s1") in str(caught.value)


PEAK = """
import re, sys
from pathlib import Path
import lora_evo

def peak():
    # Not ru_maxrss: that of a child process starts at its parent's.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

lora_evo.mutate_directory("svd_structured", sys.argv[1], sys.argv[3], seed=1)
before = peak()
lora_evo.mutate_directory("svd_structured", sys.argv[2], sys.argv[4], seed=1)
child = peak()
whole = lora_evo.load_adapter(sys.argv[2])
print(child - before, peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's own account")
def test_memory_grows_by_a_few_modules_not_by_the_adapter(tmp_path, make_adapter):
    save_adapter(make_adapter(1, r=8, inputs=64, outputs=64, layers=1), tmp_path / "small")
    save_adapter(make_adapter(2, r=16, inputs=8192, outputs=8192, layers=48), tmp_path / "big")
    split(tmp_path / "big", 4)
    size = sum(file.stat().st_size for file in (tmp_path / "big").glob("*.safetensors"))
    assert size > 100e6
    words = [str(tmp_path / name) for name in ("small", "big", "c", "d")]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=True
    )
    child, whole = map(int, done.stdout.split())
    assert child < size / 4
    assert whole > size / 2
