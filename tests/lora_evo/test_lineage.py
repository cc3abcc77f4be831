"""Directories in, directories out: the same child as in memory, on record, made again."""

import re
from dataclasses import replace

import pytest
import torch
from by_hand import edit_json

from lora_evo import (
    LoraEvoError,
    content_hash,
    family,
    load_adapter,
    mutate,
    read_lineage,
    save_adapter,
    verify,
    write_child,
)
from lora_evo.family import tree

FILES = ["adapter_config.json", "adapter_model.safetensors", "lineage.json"]


def contents(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.fixture
def bred(home):
    write_child("svd_structured", [home / "p1"], home / "c", seed=3, strength=0.2)
    write_child("slot_swap", [home / "c", home / "p2"], home / "d", seed=4, weights=[1, 2])
    return home


def test_lineage_says_what_happened(bred):
    record = read_lineage(bred / "d")
    assert record.parents == (content_hash(bred / "c"), content_hash(bred / "p2"))
    assert record.content_hash == content_hash(bred / "d")
    assert (record.operator, record.seed, record.generation) == ("slot_swap", 4, 2)
    assert record.weights == (1, 2)
    assert record.moments_valid
    first = read_lineage(bred / "c")
    assert not first.moments_valid
    assert first.strength == 0.2
    assert first.relative_change == pytest.approx(0.2, rel=1e-6)
    assert {row.rank for row in first.modules.values()} == {4}
    assert read_lineage(bred / "p1") is None


def test_equal_inputs_give_equal_bytes_anywhere(bred, make_adapter):
    elsewhere = bred / "far" / "away"
    save_adapter(make_adapter(1), elsewhere / "x1")
    save_adapter(make_adapter(2), elsewhere / "x2")
    write_child("svd_structured", [elsewhere / "x1"], elsewhere / "y", seed=3, strength=0.2)
    write_child(
        "slot_swap", [elsewhere / "y", elsewhere / "x2"], elsewhere / "z", seed=4,
        weights=[1, 2],
    )  # fmt: skip
    assert contents(elsewhere / "y") == contents(bred / "c")
    assert contents(elsewhere / "z") == contents(bred / "d")
    assert sorted(path.name for path in elsewhere.iterdir()) == ["x1", "x2", "y", "z"]


def test_torch_threads_do_not_matter_and_are_put_back(tmp_path, make_adapter):
    save_adapter(make_adapter(1, inputs=1500, outputs=2000, r=16, layers=1), tmp_path / "p")
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            write_child("svd_structured", [tmp_path / "p"], tmp_path / f"c{threads}", seed=1)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert contents(tmp_path / "c1") == contents(tmp_path / "c2")


def test_verify_finds_parents_by_content(bred):
    assert verify(bred / "c").identical
    assert verify(bred / "d", [bred / "c", bred / "p2"]).identical
    (bred / "c").rename(bred / "renamed")
    result = verify(bred / "d", bred)
    assert result.identical
    assert result.difference == 0
    assert result.problems == ()


def test_adapters_behind_links_are_found_once(bred):
    pool = bred / "pool"
    write_child("average", [bred / "c", bred / "p2"], pool / "deep" / "own", seed=5)
    for link, target in (("a", "deep/own"), ("c", "../c"), ("loop", ".."), ("p2", "../p2")):
        (pool / link).symlink_to(target)
    assert verify(pool / "deep" / "own", pool).identical
    assert [member.name for member in family([pool])] == ["c", "own", "d", "p1", "p2"]


def test_parents_of_bases_in_unlike_bits_are_refused(bred):
    record = replace(read_lineage(bred / "c"), quantization="4-bit nf4")
    (bred / "c" / "lineage.json").write_text(record.to_json())
    child = write_child("average", [bred / "p2", bred / "c"], bred / "e", seed=1)
    assert child.quantization == "4-bit nf4", "what has no lineage is not known"
    with pytest.raises(LoraEvoError, match="a base in 4-bit nf4 and in plain weights"):
        write_child("average", [bred / "d", bred / "c"], bred / "f", seed=1)


def test_verify_sees_training(bred):
    adapter = load_adapter(bred / "c")
    save_adapter(mutate(adapter, "svd_structured", 9, 0.01), bred / "c", overwrite=True)
    result = verify(bred / "c")
    assert not result.identical
    assert result.difference == pytest.approx(0.01, rel=0.05)
    assert len(result.modules_differing) == 4
    assert "the child has changed since its birth" in result.problems[0]


@pytest.mark.parametrize(
    ("file", "field", "value", "words"),
    [
        ("lineage.json", "seed", 5, "4 of 4 modules differ"),
        ("lineage.json", "strength", 0.3, "4 of 4 modules differ"),
        ("lineage.json", "relative_change", 0.1, "differs .* in: relative_change"),
        ("adapter_config.json", "lora_dropout", 0.5, "adapter_config.json differs from"),
    ],
)
def test_verify_sees_what_was_edited(bred, file, field, value, words):
    edit_json(bred / "c" / file, {field: value})
    result = verify(bred / "c")
    assert not result.identical
    assert re.search(words, " ".join(result.problems))


def test_a_child_of_equal_parents_overwrites_another_with_its_record(bred, make_adapter):
    save_adapter(make_adapter(1), bred / "twin")
    parents = [bred / "p1", bred / "twin"]
    record = write_child("slot_swap", parents, bred / "c", seed=1, overwrite=True)
    assert record.content_hash == content_hash(bred / "p1")
    assert record.relative_change == 0
    assert read_lineage(bred / "c") == record
    assert verify(bred / "c").identical


def test_family_tree(bred):
    save_adapter(mutate(load_adapter(bred / "d"), "svd_structured", 1), bred / "d", overwrite=True)
    write_child("svd_structured", [bred / "d"], bred / "e", seed=7)
    lines = tree(family([bred])).splitlines()
    assert [line.split()[0].strip("└├─│") or line.split()[1] for line in lines] == [
        "p1", "c", "d", "e", "p2",
    ]  # fmt: skip
    assert "trained since" in lines[2]
    alone = tree(family([bred / "c"])).splitlines()
    assert "not here" in alone[0]
