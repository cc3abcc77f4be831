"""Another rank: the nearest update below, the same one above, and a lineage that verifies."""

import json
import math
import shutil

import pytest
import torch
from click.testing import CliRunner

from lora_evo import (
    LoraEvoError,
    content_hash,
    cross_directory,
    distance,
    load_adapter,
    mutate_directory,
    relative_change,
    save_adapter,
    verify,
)
from lora_evo.breeding.child import resize, resize_with_report
from lora_evo.breeding.child_directory import resize_directory
from lora_evo.cli import main
from lora_evo.linalg.spectrum import dead_pairs, singular_values


def dense(slot):
    return slot.scale * slot.B.double() @ slot.A.double()


KINDS = {
    "plain": {},
    "rslora": {"use_rslora": True},
    "patterns": {"rank_pattern": {"layers.1.self_attn.q_proj": 2}, "alpha_pattern": {"v_proj": 3}},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 7, 40])
@pytest.mark.parametrize("alpha", [None, 5.0])
def test_the_update_is_the_best_of_its_rank(make_adapter, kind, rank, alpha):
    parent = make_adapter(1, dtype=torch.float64, **KINDS[kind])
    child = resize_with_report(parent, rank, alpha=alpha)
    assert child.adapter.config.r == rank
    assert child.adapter.config.rank_pattern == {}
    for path, slot in child.adapter.slots.items():
        assert slot.rank == rank
        u, s, vt = torch.linalg.svd(dense(parent.slots[path]), full_matrices=False)
        best = (u[:, :rank] * s[:rank]) @ vt[:rank]
        assert torch.allclose(dense(slot), best, atol=1e-12)
        lost = float(torch.linalg.vector_norm(s[rank:]) / torch.linalg.vector_norm(s))
        assert child.lineage.modules[path].truncation_loss == pytest.approx(lost, abs=1e-8)
        assert child.lineage.modules[path].relative_change == pytest.approx(lost, abs=1e-8)
        assert dead_pairs(slot) == 0
        if alpha is None:
            assert slot.scale == pytest.approx(parent.slots[path].scale, rel=1e-9)
    change = relative_change(parent, child.adapter)
    assert child.lineage.relative_change == pytest.approx(change, abs=1e-7)


def test_the_same_rank_is_the_same_adapter_bit_for_bit(make_adapter):
    parent = make_adapter(1, dtype=torch.bfloat16, use_rslora=True)
    child = resize_with_report(parent, 4)
    for path, slot in child.adapter.slots.items():
        assert torch.equal(slot.A, parent.slots[path].A)
        assert torch.equal(slot.B, parent.slots[path].B)
    assert child.lineage.moments_valid
    assert child.adapter.config == parent.config


def test_up_keeps_the_old_pairs_and_adds_live_ones(make_adapter):
    parent = make_adapter(1, dtype=torch.bfloat16)
    one, two = resize(parent, 6, seed=1), resize(parent, 6, seed=2)
    for path, slot in one.slots.items():
        assert torch.equal(slot.A[:4], parent.slots[path].A)
        assert torch.equal(slot.B[:, :4], parent.slots[path].B)
        assert not slot.B[:, 4:].any()
        lengths = slot.A.double().norm(dim=1)
        assert 0.6 < float(lengths[4:].mean() / lengths[:4].mean()) < 1.6
        assert not torch.equal(slot.A[4:], two.slots[path].A[4:])
        assert torch.equal(slot.A, resize(parent, 6, seed=1).slots[path].A)
    rows = [slot.A[4:] for slot in one.slots.values()]
    assert not torch.equal(rows[0], rows[1])


def test_up_and_down_again_gives_the_update_back(make_adapter):
    parent = make_adapter(3, dtype=torch.float64)
    assert distance(parent, resize(resize(parent, 9), 4)) < 1e-12


def test_patterns_name_the_odd_scales_by_their_whole_path(make_adapter):
    parent = make_adapter(1, **KINDS["patterns"])
    config = resize(parent, 8).config
    # Scales: q of layer 0 is 8/4, q of layer 1 is 8/2, both v are 3/4.
    assert config.lora_alpha == 6
    assert config.alpha_pattern == {
        r"^model\.layers\.0\.self_attn\.q_proj": 16,
        r"^model\.layers\.1\.self_attn\.q_proj": 32,
    }
    assert isinstance(config.lora_alpha, int)


def test_a_fresh_adapter_stays_fresh_and_alive(make_adapter):
    for rank in (2, 7):
        for slot in resize(make_adapter(1, zero=True), rank).slots.values():
            assert not slot.B.any()
            assert slot.A.any(dim=1).all()
            assert float(singular_values(slot).sum()) == 0.0


def test_a_module_narrower_than_its_rank_stays_alive(make_adapter):
    parent = make_adapter(1, r=16, inputs=3, outputs=5, dtype=torch.float64)
    child = resize(parent, 8)
    assert distance(parent, child) < 1e-12
    assert all(dead_pairs(slot) == 0 for slot in child.slots.values())


@pytest.mark.parametrize("rank", [2, 6])
def test_directories_verify_and_can_be_crossed(tmp_path, make_adapter, rank):
    save_adapter(make_adapter(1), tmp_path / "p1")
    save_adapter(make_adapter(2, r=rank), tmp_path / "p2")
    mutate_directory("svd_structured", tmp_path / "p1", tmp_path / "c", seed=1)
    record = resize_directory(tmp_path / "c", tmp_path / "d", rank=rank, seed=3)
    assert record.generation == 2
    assert record.parents == (content_hash(tmp_path / "c"),)
    assert record.content_hash == content_hash(tmp_path / "d")
    assert verify(tmp_path / "d").identical
    cross_directory("slot_swap", [tmp_path / "d", tmp_path / "p2"], tmp_path / "e", seed=1)
    memory = resize(load_adapter(tmp_path / "c"), rank, seed=3)
    on_disk = load_adapter(tmp_path / "d")
    assert all(torch.equal(memory.slots[p].A, on_disk.slots[p].A) for p in memory.paths)
    shutil.copytree(tmp_path / "p1", tmp_path / "d2")
    file = tmp_path / "d" / "lineage.json"
    file.write_text(file.read_text().replace('"seed": 3', '"seed": 4'))
    assert verify(tmp_path / "d").identical == (rank < 4)


def test_convolutions_and_embeddings(tmp_path):
    from lora_evo import Adapter, AdapterConfig, Slot
    from lora_evo.files.layout import Layout

    config = AdapterConfig.new(r=3, lora_alpha=6, target_modules=["conv", "words"])
    noise = torch.Generator().manual_seed(0)
    conv = Slot(torch.randn(3, 18, generator=noise), torch.randn(5, 3), 2.0, Layout("conv", (3, 3)))
    words = Slot(torch.zeros(3, 11), torch.randn(5, 3), 2.0, Layout("embedding"))
    save_adapter(Adapter(config, {"conv": conv, "words": words}), tmp_path / "p")
    for rank in (2, 5):
        resize_directory(tmp_path / "p", tmp_path / f"r{rank}", rank=rank)
        child = load_adapter(tmp_path / f"r{rank}")
        assert child.slots["conv"].layout == conv.layout
        assert child.slots["words"].layout == words.layout
        assert verify(tmp_path / f"r{rank}", [tmp_path / "p"]).identical
        assert all(dead_pairs(slot) == 0 for slot in child.slots.values())
    assert torch.allclose(dense(child.slots["conv"]), dense(conv))


def test_peft_computes_with_every_scale_of_a_resized_adapter(tmp_path, make_adapter):
    peft = pytest.importorskip("peft")
    parent = make_adapter(1, **KINDS["patterns"])
    save_adapter(parent, tmp_path / "p")
    resize_directory(tmp_path / "p", tmp_path / "c", rank=8)
    read = peft.LoraConfig.from_pretrained(tmp_path / "c")
    for path, slot in load_adapter(tmp_path / "c").slots.items():
        key = peft.utils.other.get_pattern_key(read.alpha_pattern, path)
        assert read.alpha_pattern.get(key, read.lora_alpha) / read.r == pytest.approx(slot.scale)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 0}, "rank is 0"),
        ({"rank": -3}, "rank is -3"),
        ({"rank": True}, "rank is True"),
        ({"rank": 2, "alpha": 0}, "above 0"),
        ({"rank": 2, "alpha": math.nan}, "above 0"),
        ({"rank": 2, "seed": -1}, "seed is -1"),
    ],
)
def test_impossible_ranks_and_scales_are_refused(make_adapter, settings, words):
    with pytest.raises(LoraEvoError, match=words):
        resize(make_adapter(), **settings)


def test_an_overflow_is_refused_with_the_way_out(make_adapter):
    with pytest.raises(LoraEvoError, match="alpha"):
        resize(make_adapter(1, dtype=torch.float16), 4, alpha=1e-9)


def test_the_command(tmp_path, make_adapter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_adapter(make_adapter(1), "p")

    def call(*words):
        return CliRunner().invoke(main, [str(word) for word in words])

    done = call("resize", "p", "--rank", 2, "--out", "c")
    assert done.exit_code == 0, done.output
    assert "rank 2" in done.stdout
    assert "truncation lost" in done.stdout
    shown = call("resize", "p", "--rank", 2, "--out", "d", "--alpha", 3, "--json")
    record = json.loads(shown.stdout)
    assert record["parameters"] == {"alpha": 3.0, "rank": 2}
    assert record["content_hash"] == content_hash("d")
    assert call("verify", "d").exit_code == 0
    for words, reason in (
        (("resize", "p", "--rank", 0, "--out", "x"), "rank is 0"),
        (("resize", "p", "--rank", 2, "--out", "c"), "exists already"),
        (("resize", "p", "--rank", 2, "--out", "p/x"), "inside the parent"),
        (("resize", "p", "--rank", 2, "--out", "p", "--overwrite"), "is a parent"),
        (("resize", "p", "--rank", 2, "--out", "x", "--alpha", "nan"), "above 0"),
    ):
        failed = call(*words)
        assert failed.exit_code == 2
        assert reason in failed.stderr
        assert len(failed.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d", "p"]
