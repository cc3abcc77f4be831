"""Model cards of all that is written, and a push through the hub's own client to a loopback hub."""

import base64
import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from meanwhile import serving

from lora_evo import (
    LoraEvoError,
    content_hash,
    load_adapter,
    push_to_hub,
    read_lineage,
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


def test_saving_again_keeps_the_parents_and_takes_results(home, make_adapter):
    record = write_child("full_gaussian", ["p1"], "c", seed=1)
    save_adapter(make_adapter(5), "c", overwrite=True, results={"solved": 0.25})
    _, text = card(home / "c")
    assert record.parents[0] in text
    assert "| solved | 0.25 |" in text
    save_adapter(make_adapter(5), "e", lineage=record)
    assert read_lineage("e") == record
    assert record.parents[0] in card(home / "e")[1]


def test_a_base_model_of_any_name_is_one_string_of_yaml(home, make_adapter):
    name = 'a: "b" # c'
    save_adapter(make_adapter(1, base=name), "odd")
    assert card(home / "odd")[0]["base_model"] == name


class Hub(BaseHTTPRequestHandler):
    """The calls of the hub that make a repository and a commit, kept as they come."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.calls.append((self.path, self.headers["Authorization"], body))
        root = f"http://127.0.0.1:{self.server.server_port}/me/mine"
        answer = {"url": root, "id": "me/mine", "name": "me/mine", "errors": [], "warnings": []}
        if "preupload" in self.path:
            sent = {"uploadMode": "regular", "shouldIgnore": False}
            answer["files"] = [{"path": f["path"]} | sent for f in json.loads(body)["files"]]
        elif "commit" in self.path:
            answer = {"commitUrl": f"{root}/commit/1", "commitOid": "1", "success": True}
        self.reply(answer)

    def do_GET(self):
        self.server.calls.append((self.path, self.headers["Authorization"], b""))
        self.reply({"id": "me/mine", "siblings": [], "sha": "0"})

    def reply(self, answer):
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Hub)) as server:
        server.calls = []
        yield server


PUSH = "from lora_evo import push_to_hub; print(push_to_hub('c', 'me/mine', private=True))"


def test_a_push_uploads_the_adapter_its_record_and_its_card(home, hub):
    pytest.importorskip("huggingface_hub")
    write_child("full_gaussian", ["p1"], "c", seed=1)
    (home / "c/notes.txt").write_text("mine")
    endpoint = f"http://127.0.0.1:{hub.server_port}"
    environment = {
        **{k: v for k, v in os.environ.items() if "proxy" not in k.lower()},
        "HF_ENDPOINT": endpoint, "HF_TOKEN": "hf_x", "HF_HOME": str(home / "cache"),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_OFFLINE": "0",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PUSH], env=environment, capture_output=True, text=True
    )
    assert done.stdout == f"{endpoint}/me/mine/commit/1\n", done.stderr
    created = next(json.loads(body) for path, _, body in hub.calls if "repos/create" in path)
    assert created["name"] == "mine"
    assert "private" in (created.get("visibility"), "private" if created.get("private") else "")
    commit = next(body for path, _, body in hub.calls if "/commit/" in path)
    rows = [json.loads(line) for line in commit.splitlines()]
    sent = {r["value"]["path"]: r["value"]["content"] for r in rows if r["key"] == "file"}
    assert sorted(sent) == FILES
    for name, content in sent.items():
        assert base64.b64decode(content) == (home / "c" / name).read_bytes()
    assert {who for path, who, _ in hub.calls if "repos" in path} == {"Bearer hf_x"}


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
