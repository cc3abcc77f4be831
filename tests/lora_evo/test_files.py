"""Adapter directories: round trips, hashes, shards, atomic writes, and each way to be wrong."""

import json
import os
import pickle
import re
import zipfile
from pathlib import Path

import pytest
import torch
from by_hand import same
from programs import python
from safetensors.torch import load_file, save_file

from lora_evo import (
    Adapter,
    LoraEvoError,
    Slot,
    adapter_hash,
    content_hash,
    cross_directory,
    load_adapter,
    mutate_directory,
    save_adapter,
    verify,
)
from lora_evo.peft.adapter import open_adapter

WEIGHTS = "adapter_model.safetensors"
INDEX = "adapter_model.safetensors.index.json"
CONFIG = "adapter_config.json"
Q = "base_model.model.model.layers.0.self_attn.q_proj"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def saved(tmp_path, make_adapter):
    save_adapter(make_adapter(1), tmp_path / "p")
    return tmp_path / "p"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_round_trip_keeps_every_bit(tmp_path, make_adapter, dtype):
    adapter = make_adapter(
        3, dtype=dtype, rank_pattern={"layers.1.self_attn.q_proj": 2}, alpha_pattern={"v_proj": 3}
    )
    save_adapter(adapter, tmp_path / "p")
    again = load_adapter(tmp_path / "p")
    assert again.config == adapter.config
    assert list(again.slots) == sorted(adapter.slots)
    assert same(again, adapter)
    assert all(again.slots[path].scale == slot.scale for path, slot in adapter.slots.items())
    assert content_hash(tmp_path / "p") == adapter_hash(adapter)


def test_hash_ignores_tensor_order_and_lineage_but_not_weights_and_configuration(saved):
    before = content_hash(saved)
    tensors(lambda held: None)(saved)
    (saved / "lineage.json").write_text("{}")
    assert content_hash(saved) == before
    tensors(lambda held: held[f"{Q}.lora_A.weight"].add_(1e-3))(saved)
    trained = content_hash(saved)
    config(lora_alpha=9)(saved)
    assert len({before, trained, content_hash(saved)}) == 3


def test_weights_that_change_under_a_reader_are_not_mixed(saved, make_adapter):
    reader = open_adapter(saved)
    path = reader.paths[0]
    assert torch.equal(reader.slot(path).A, make_adapter(1).slots[path].A)
    save_adapter(make_adapter(2), saved, overwrite=True)
    with pytest.raises(LoraEvoError, match="was changed while it was read"):
        reader.slot(path)


def test_an_existing_directory_is_refused_unless_asked(saved, make_adapter):
    before = content_hash(saved)
    with pytest.raises(LoraEvoError, match="exists already"):
        save_adapter(make_adapter(2), saved)
    assert content_hash(saved) == before
    (saved / "note.txt").write_text("kept")
    save_adapter(make_adapter(2), saved, overwrite=True)
    assert content_hash(saved) == adapter_hash(make_adapter(2))
    assert names(saved) == ["README.md", "adapter_config.json", WEIGHTS, "note.txt"]
    assert names(saved.parent) == ["p"]


def test_adapters_are_checked_when_built(make_adapter):
    good = make_adapter()
    path, slot = next(iter(good.slots.items()))
    for bad, words in (
        (Slot(slot.A, slot.B, 7.0), "scale"),
        (Slot(slot.A.int(), slot.B, slot.scale), "int32"),
        (Slot(slot.A[:2], slot.B, slot.scale), "fit together"),
        (Slot(slot.A[:2], slot.B[:, :2], slot.scale), "rank 2"),
    ):
        with pytest.raises(LoraEvoError, match=words):
            Adapter(good.config, {path: bad})
    with pytest.raises(LoraEvoError, match="no slots"):
        Adapter(good.config, {})


def test_nan_is_never_saved(tmp_path, make_adapter):
    adapter = make_adapter()
    next(iter(adapter.slots.values())).B[0, 0] = float("nan")
    with pytest.raises(LoraEvoError, match="NaN"):
        save_adapter(adapter, tmp_path / "p")
    assert names(tmp_path) == []


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


def pickled(folder, protocol, value=None):
    weights = value or {f"{Q}.lora_A.weight": [0.5, 1.0]}
    (folder / WEIGHTS).write_bytes(pickle.dumps(weights, protocol))


def archived(folder):
    with zipfile.ZipFile(folder / WEIGHTS, "w") as archive:
        archive.writestr("a.npy", b"x" * 500)


DAMAGES = {
    "NaN": (put("lora_B.weight", torch.full((32, 4), float("nan"))), "NaN or infinite"),
    "half a pair": (tensors(lambda held: held.pop(f"{Q}.lora_B.weight")), "half a pair"),
    "shapes": (put("lora_A.weight", torch.ones(3, 24)), "does not fit together"),
    "rank": (config(r=8), "the configuration says 8"),
    "targets": (config(target_modules=["q_proj"]), "which the configuration leaves out"),
    "unknown tensor": (put("lora_C.weight", torch.ones(1)), "unknown tensor"),
    "DoRA tensor": (put("lora_magnitude_vector", torch.ones(3)), "DoRA"),
    "bias tensor": (put("lora_B.bias", torch.ones(3)), "bias"),
    "Inf in A": (put("lora_A.weight", torch.full((4, 24), float("inf"))), "NaN or infinite"),
    "convolution": (put("lora_A.weight", torch.ones(4, 24, 3, 3)), "those of a linear layer"),
    "int8": (put("lora_A.weight", torch.ones(4, 24, dtype=torch.int8)), "stored as I8"),
    "empty tensor": (put("lora_A.weight", torch.ones(4, 0)), "is empty"),
    "embedding": (put("lora_embedding_A", torch.ones(2)), "only linear layers"),
    "base weight": (
        tensors(lambda held: held.update({"base_model.model.lm_head.weight": torch.ones(2)})),
        "save_embedding_layers",
    ),
    "no tensors": (tensors(lambda held: held.clear()), "no LoRA tensors"),
    "LFS": (text(WEIGHTS, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "LFS"),
    "truncated": (cut, "truncated or corrupt"),
    "empty file": (text(WEIGHTS, ""), "truncated or corrupt"),
    "huge header": (lambda f: (f / WEIGHTS).write_bytes(b"\xff" * 64), "truncated or corrupt"),
    "renamed pickle": (lambda f: (f / WEIGHTS).write_bytes(pickle.dumps([1])), "pickle"),
    "pickle of protocol 0": (lambda f: pickled(f, 0), "pickle"),
    "pickle of protocol 1": (lambda f: pickled(f, 1), "pickle"),
    "long pickle": (lambda f: pickled(f, 0, dict.fromkeys(map(str, range(3000)))), "pickle"),
    "pickled array": (lambda f: pickled(f, 1, [b"x" * 9000] * 7), "pickle"),
    "zip without a pickle": (archived, "truncated or corrupt"),
    "web page": (text(WEIGHTS, "<!DOCTYPE html>\n<p>"), "truncated or corrupt"),
    "message": (text(WEIGHTS, "Not Found\n"), "truncated or corrupt"),
    "renamed checkpoint": (lambda f: torch.save({"a": torch.ones(1)}, f / WEIGHTS), "pickle"),
    "pickle": (lambda f: (f / WEIGHTS).rename(f / "adapter_model.bin"), "save_pretrained"),
    "broken JSON": (text(CONFIG, '{"r": 8,'), "is not JSON"),
    "deep JSON": (text(CONFIG, "[" * 200000), "is not JSON"),
    "not text": (lambda f: (f / CONFIG).write_bytes(b"\xff\xfe{}"), "not UTF-8"),
    "no weights": (remove(WEIGHTS), "there is no adapter_model"),
    "empty folder": (remove(WEIGHTS, CONFIG), "has no adapter_config.json"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_adapter_is_refused_with_its_place_and_fault(saved, name):
    damage, reason = DAMAGES[name]
    damage(saved)
    with pytest.raises(LoraEvoError, match=reason) as caught:
        load_adapter(saved)
    assert str(saved) in str(caught.value)
    with pytest.raises(LoraEvoError, match=reason):
        mutate_directory("svd_structured", saved, saved.parent / "c", seed=1)
    assert names(saved.parent) == ["p"]


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
def sharded(tmp_path, make_adapter):
    for number in (1, 2):
        save_adapter(make_adapter(number), tmp_path / f"p{number}")
        save_adapter(make_adapter(number), tmp_path / f"s{number}")
        split(tmp_path / f"s{number}")
    return tmp_path


def test_children_of_sharded_parents_are_single_files_of_the_same_bytes(sharded):
    assert content_hash(sharded / "s1") == content_hash(sharded / "p1")
    mutate_directory("svd_structured", sharded / "p1", sharded / "c1", seed=1)
    mutate_directory("svd_structured", sharded / "s1", sharded / "c2", seed=1)
    cross_directory("average", [sharded / "s1", sharded / "p2"], sharded / "d1", seed=1)
    cross_directory("average", [sharded / "p1", sharded / "s2"], sharded / "d2", seed=1)
    for one, two in (("c1", "c2"), ("d1", "d2")):
        assert sorted(p.name for p in (sharded / two).iterdir()) == [
            "README.md", "adapter_config.json", WEIGHTS, "lineage.json",
        ]  # fmt: skip
        assert (sharded / one / WEIGHTS).read_bytes() == (sharded / two / WEIGHTS).read_bytes()
    assert verify(sharded / "d1", [sharded / "s1", sharded / "s2"]).identical


def test_an_overwritten_sharded_adapter_is_read_from_its_new_file(sharded, make_adapter):
    save_adapter(make_adapter(2), sharded / "s1", overwrite=True)
    assert content_hash(sharded / "s1") == content_hash(sharded / "p2")


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
        (edit(lambda p: p.update({min(p): "../p1/" + WEIGHTS})), "file next to it"),
        (edit(lambda p: p.update({min(p): 3})), "file next to it"),
        (edit(lambda p: p.update(extra=min(p.values()))), "disagree on whether extra"),
        (edit(lambda p: p.pop(min(p))), "disagree on whether base_model"),
    ],
)
def test_damaged_shards_are_refused_by_name(sharded, damage, words):
    damage(sharded / "s1", json.loads((sharded / "s1" / INDEX).read_text())["weight_map"])
    with pytest.raises(LoraEvoError, match=words) as caught:
        load_adapter(sharded / "s1")
    assert str(sharded / "s1") in str(caught.value)


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
    said = python("-c", PEAK, *(tmp_path / name for name in ("small", "big", "c", "d")))
    child, whole = map(int, said.split())
    assert child < size / 4
    assert whole > size / 2


def test_an_adapter_shows_itself_in_one_line_and_as_a_table(make_adapter):
    adapter = make_adapter(1)
    shown = repr(adapter)
    assert shown.startswith(f"Adapter(rank 4, {len(adapter.slots)} modules, base ")
    assert len(shown) < 200
    assert "rank 4" in repr(adapter.slots[adapter.paths[0]])
    times = [int(n) for n in re.findall(r"<td>(\d+)</td></tr>", adapter._repr_html_())]
    assert sum(times) == len(adapter.slots)
