"""Adapter directories: round trips, hashes, atomic writes."""

import pytest
import torch
from by_hand import edit_json, edit_weights, same

from lora_evo import (
    Adapter,
    LoraEvoError,
    Slot,
    adapter_hash,
    content_hash,
    load_adapter,
    save_adapter,
)
from lora_evo.peft.adapter import open_adapter

WEIGHTS = "adapter_model.safetensors"
A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


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
    edit_weights(saved, lambda held: None)
    (saved / "lineage.json").write_text("{}")
    assert content_hash(saved) == before
    edit_weights(saved, lambda held: {**held, A: held[A] + 1e-3})
    trained = content_hash(saved)
    edit_json(saved / "adapter_config.json", {"lora_alpha": 9})
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
        (Slot(slot.A[:2], slot.B, slot.scale), "expected those of a linear"),
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
