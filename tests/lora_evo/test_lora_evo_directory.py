"""Adapter directories: round trips, atomic writes, and every way a file can be wrong."""

import errno
import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from lora_evo import (
    Adapter,
    FileDamage,
    LoraEvoError,
    Slot,
    adapter_hash,
    content_hash,
    load_adapter,
    mutate_directory,
    save_adapter,
)
from lora_evo.files.tensor_file import TensorWriter

KEY = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
WEIGHTS = "adapter_model.safetensors"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def rewrite(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


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
    for path, slot in adapter.slots.items():
        for one, two in ((slot.A, again.slots[path].A), (slot.B, again.slots[path].B)):
            assert one.dtype == two.dtype
            assert torch.equal(one, two)
        assert again.slots[path].scale == slot.scale
    assert content_hash(tmp_path / "p") == adapter_hash(adapter)


def test_file_is_what_the_safetensors_library_reads(saved, make_adapter):
    tensors = load_file(saved / WEIGHTS)
    slot = make_adapter(1).slots["model.layers.0.self_attn.q_proj"]
    assert torch.equal(tensors[KEY], slot.A)
    assert len(tensors) == 8


def test_hash_ignores_tensor_order_and_lineage_but_not_weights(saved, tmp_path):
    before = content_hash(saved)
    rewrite(saved, lambda tensors: None)
    (saved / "lineage.json").write_text("{}")
    assert content_hash(saved) == before
    rewrite(saved, lambda tensors: tensors[KEY].add_(1e-3))
    assert content_hash(saved) != before


def test_hash_sees_the_configuration(saved):
    before = content_hash(saved)
    config = json.loads((saved / "adapter_config.json").read_text())
    (saved / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 9}))
    assert content_hash(saved) != before


def test_an_existing_directory_is_refused_unless_asked(saved, make_adapter):
    before = content_hash(saved)
    with pytest.raises(LoraEvoError, match="exists already"):
        save_adapter(make_adapter(2), saved)
    assert content_hash(saved) == before
    (saved / "note.txt").write_text("kept")
    save_adapter(make_adapter(2), saved, overwrite=True)
    assert content_hash(saved) == adapter_hash(make_adapter(2))
    assert names(saved) == ["adapter_config.json", WEIGHTS, "note.txt"]
    assert names(saved.parent) == ["p"]


def test_a_file_in_the_way_is_refused(tmp_path, make_adapter):
    (tmp_path / "file").write_text("")
    with pytest.raises(LoraEvoError, match="not a folder"):
        save_adapter(make_adapter(), tmp_path / "file", overwrite=True)
    with pytest.raises(LoraEvoError, match="not a folder"):
        save_adapter(make_adapter(), tmp_path / "file" / "below")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_nothing_behind(tmp_path, saved, make_adapter, monkeypatch, overwrite):
    before, count = content_hash(saved), 0
    original = TensorWriter.write

    def failing(self, name, tensor):
        nonlocal count
        count += 1
        if count > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(self, name, tensor)

    monkeypatch.setattr(TensorWriter, "write", failing)
    out = saved if overwrite else tmp_path / "new"
    with pytest.raises(OSError, match="No space"):
        save_adapter(make_adapter(2), out, overwrite=overwrite)
    count = 0
    with pytest.raises(OSError, match="No space"):
        mutate_directory("svd_structured", saved, tmp_path / "child", seed=1)
    assert names(tmp_path) == ["p"]
    assert content_hash(saved) == before


def test_truncated_file(saved):
    data = (saved / WEIGHTS).read_bytes()
    for size in (0, 5, 8, 100, len(data) // 2, len(data) - 1):
        (saved / WEIGHTS).write_bytes(data[:size])
        with pytest.raises(FileDamage, match="truncated or corrupt"):
            load_adapter(saved)


def test_pickles_are_refused_with_a_way_out(saved):
    (saved / WEIGHTS).write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileDamage, match="pickle under another name"):
        load_adapter(saved)
    torch.save({"a": torch.ones(1)}, saved / "adapter_model.bin")
    (saved / WEIGHTS).unlink()
    with pytest.raises(FileDamage, match=r"adapter_model\.bin.*save_pretrained"):
        load_adapter(saved)


def test_lfs_pointer(saved):
    (saved / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(FileDamage, match="LFS"):
        load_adapter(saved)


def test_missing_files(tmp_path, saved):
    with pytest.raises(LoraEvoError, match="not a folder"):
        load_adapter(tmp_path / "nowhere")
    (saved / WEIGHTS).unlink()
    with pytest.raises(LoraEvoError, match="no adapter_model"):
        load_adapter(saved)
    (saved / "adapter_config.json").unlink()
    with pytest.raises(LoraEvoError, match="no adapter_config"):
        load_adapter(saved)


def put(key, value):
    return lambda tensors: tensors.__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop(KEY), "half a pair"),
        (put(KEY, torch.full((4, 24), float("nan"))), "NaN or infinite"),
        (put(KEY, torch.full((4, 24), float("inf"))), "NaN or infinite"),
        (put(KEY, torch.ones(5, 24)), "does not fit together"),
        (put(KEY, torch.ones(4, 24, 3, 3)), "a convolution"),
        (put(KEY, torch.ones(4, 24, dtype=torch.int8)), "I8"),
        (put(KEY, torch.ones(4, 0)), "empty"),
        (put("base_model.model.lm_head.weight", torch.ones(2)), "save_embedding_layers"),
        (put(KEY.replace("lora_A.weight", "lora_magnitude_vector"), torch.ones(2)), "DoRA"),
        (put(KEY.replace("lora_A.weight", "lora_embedding_A"), torch.ones(2)), "embedding"),
        (put("something", torch.ones(2)), "unknown tensor something"),
        (lambda t: t.clear(), "no LoRA tensors"),
    ],
)
def test_wrong_tensors_are_refused_by_name(saved, change, words):
    rewrite(saved, change)
    with pytest.raises(LoraEvoError, match=words) as caught:
        load_adapter(saved)
    assert str(saved) in str(caught.value)


def test_rank_and_targets_must_fit_the_configuration(saved):
    config = json.loads((saved / "adapter_config.json").read_text())
    (saved / "adapter_config.json").write_text(json.dumps({**config, "r": 8}))
    with pytest.raises(LoraEvoError, match="rank 4, but the configuration says 8"):
        load_adapter(saved)
    changed = {**config, "target_modules": ["q_proj"]}
    (saved / "adapter_config.json").write_text(json.dumps(changed))
    with pytest.raises(LoraEvoError, match="target_modules does not name"):
        load_adapter(saved)


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
