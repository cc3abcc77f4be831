"""Modules that transformers 4, 5 and a text model alone call otherwise are the same modules."""

import pytest
from by_hand import build_adapter, same
from lora_evo_command import call, refused

from lora_evo import (
    Adapter,
    AdapterConfig,
    content_hash,
    cross,
    distance,
    load_adapter,
    merge,
    read_lineage,
    retention,
    save_adapter,
    verify,
)

LAYERS = {
    "transformers 5": "model.language_model.layers.",
    "transformers 4": "language_model.model.layers.",
    "text": "model.layers.",
    "text without a head": "layers.",
}


def called(adapter, start, kept=lambda path: True):
    """The adapter with its layers below another name, as a file of that naming holds it."""
    slots = {
        path.replace("model.layers.", start): slot
        for path, slot in adapter.slots.items()
        if kept(path)
    }
    return Adapter(adapter.config, slots)


@pytest.mark.parametrize("other", LAYERS)
@pytest.mark.parametrize("first", LAYERS)
def test_children_of_two_namings_are_those_of_one(first, other):
    one, two = build_adapter(1), build_adapter(2, r=6, rank_pattern={r"layers\.1\..*v_proj": 3})
    pair = called(one, LAYERS[first]), called(two, LAYERS[other])
    wanted = merge([one, two], "cat", weights=(1, 0.5))
    assert same(merge(pair, "cat", weights=(1, 0.5)), called(wanted, LAYERS[first]))
    assert distance(pair[0], called(one, LAYERS[other])) == 0
    wanted = cross([one, two], "average", seed=1)
    assert same(cross(pair, "average", seed=1), called(wanted, LAYERS[first]))
    if "without" in first + other:
        return
    # A module that the first lacks is called as in the first.
    parts = [called(one, "model.layers.", of("q_proj")), called(two, "model.layers.", of("v_proj"))]
    named = called(parts[0], LAYERS[first]), called(parts[1], LAYERS[other])
    found, wanted = merge(named), merge(parts)
    assert list(found.paths) == [p.replace("model.layers.", LAYERS[first]) for p in wanted.paths]
    pairs = zip(found.paths, wanted.paths, strict=True)
    assert all(same(found.slots[path], wanted.slots[plain]) for path, plain in pairs)


def of(name):
    return lambda path: name in path


def test_directories_of_two_namings_merge_verify_and_compare(home):
    save_adapter(called(build_adapter(1), LAYERS["transformers 4"]), "old")
    save_adapter(called(build_adapter(2), LAYERS["transformers 5"]), "new")
    said = call("merge", "old", "new", "--out", "m")
    assert "count as 0" not in said.output
    assert verify("m").identical
    assert read_lineage("m").parents == (content_hash("old"), content_hash("new"))
    assert load_adapter("m").paths == load_adapter("old").paths
    assert len(retention("old", "new").modules) == 4
    call("cross", "slot_swap", "new", "old", "--out", "c", "--seed", "1")
    assert verify("c").identical
    assert load_adapter("c").paths == load_adapter("new").paths
    assert "language_model" in call("distance", "old", "new").stdout


def test_what_cannot_be_told_is_refused_in_one_line(home):
    def on(path):
        adapter = build_adapter(1, layers=1)
        config = AdapterConfig.new(
            r=4, lora_alpha=8, target_modules=[path], base_model_name_or_path="tiny"
        )
        return Adapter(config, {path: adapter.slots[adapter.paths[0]]})

    save_adapter(on("visual.blocks.0.q_proj"), "old")
    save_adapter(on("model.language_model.layers.0.q_proj"), "new")
    refused("merge old new --out m", "are of two naming schemes")
