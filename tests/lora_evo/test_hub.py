"""Model cards of all that is written, and what a push asks of the hub's own client."""

import re
import sys
from unittest.mock import create_autospec

import pytest

from lora_evo import (
    LoraEvoError,
    content_hash,
    load_adapter,
    push_to_hub,
    save_adapter,
    verify,
    write_child,
)

FILES = ["README.md", "adapter_config.json", "adapter_model.safetensors", "lineage.json"]


def card(folder):
    """The front matter as the hub reads it, and the text below it."""
    _, matter, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return pytest.importorskip("yaml").safe_load(matter), text


def test_whatever_writes_an_adapter_writes_its_card(home):
    parents = content_hash("p1"), content_hash("p2")
    write_child("svd_structured", ["p1"], "c", seed=3, strength=0.2)
    write_child("dare", ["p1", "p2"], "d", seed=4)
    write_child("ties", ["p1", "p2"], "m", weights=(1, 0.5), kind="merge")
    for name, made, known in (
        ("p1", "", ()),
        ("c", "`svd_structured` (seed 3, strength 0.2, rotation 1.0), generation 1", parents[:1]),
        ("d", "`dare` (seed 4, p 0.3), generation 1", parents),
        ("m", "`merge_ties` (seed 0, weights [1.0, 0.5], density 0.5), generation 1", parents),
    ):
        front, text = card(home / name)
        assert front == {"library_name": "peft", "base_model": "tiny", "tags": ["lora", "populab"]}
        assert "rank 4, alpha 8" in text
        assert made in text
        assert [line[3:-1] for line in text.splitlines() if line.startswith("- `")] == list(known)
        assert not made or verify(name).identical


def test_a_card_changes_no_hash_and_is_the_same_for_equal_children(home):
    for name in ("c", "same"):
        write_child("full_gaussian", ["p1"], name, seed=1)
    before = content_hash("c")
    assert (home / "c/README.md").read_bytes() == (home / "same/README.md").read_bytes()
    (home / "c/README.md").unlink()
    assert content_hash("c") == before
    assert verify("c").identical


def test_a_base_model_of_any_name_is_one_string_of_yaml(home, make_adapter):
    name = 'a: "b" # c'
    save_adapter(make_adapter(1, base=name), "odd")
    assert card(home / "odd")[0]["base_model"] == name


def test_a_push_uploads_the_adapter_its_record_and_its_card(home, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    api = create_autospec(hub.HfApi, instance=True)
    api.upload_folder.return_value.commit_url = "https://hub/me/mine/commit/1"
    monkeypatch.setattr(hub, "HfApi", lambda: api)
    write_child("full_gaussian", ["p1"], "c", seed=1)
    (home / "c/notes.txt").write_text("mine")
    assert push_to_hub("c", "me/mine", private=True) == "https://hub/me/mine/commit/1"
    api.create_repo.assert_called_once_with("me/mine", private=True, exist_ok=True)
    sent = api.upload_folder.call_args.kwargs
    names = [file.name for file in sent["folder_path"].iterdir()]
    taken = hub.utils.filter_repo_objects(names, allow_patterns=sent["allow_patterns"])
    assert (sent["repo_id"], sorted(taken)) == ("me/mine", FILES)


def test_what_cannot_be_pushed_is_refused_before_anything_is_made(home, make_adapter, monkeypatch):
    with pytest.raises(LoraEvoError, match="not a folder"):
        push_to_hub("nowhere", "me/mine")
    save_adapter(make_adapter(1, base="/data/base"), "local")
    with pytest.raises(LoraEvoError, match="'/data/base', a path of this machine"):
        push_to_hub("local", "me/mine")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        LoraEvoError, match=f"type: {re.escape(sys.executable)} -m pip install huggingface_hub$"
    ):
        push_to_hub("p1", "me/mine")
    assert load_adapter("p1")
