"""Operators given as objects: checked when made, run like any other, and honest on record."""

from dataclasses import replace

import pytest
import torch

from lora_evo import (
    LoraEvoError,
    cross,
    cross_directory,
    mutate,
    mutate_directory,
    read_lineage,
    save_adapter,
    verify,
)
from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.measured import measured, unchanged
from lora_evo.operators.operator import Operator, SlotChild


@pytest.fixture
def home(tmp_path, make_adapter):
    save_adapter(make_adapter(1), tmp_path / "p")
    return tmp_path


def halved(**changes):
    def prepare(request):
        def recipe(path, slots) -> SlotChild:
            slot = slots[0]
            return measured(path, slot, replace(slot, B=slot.B * request.parameters["factor"]))

        return recipe

    fields = {"name": "halved", "kind": "mutation", "summary": "s", "preserves": "p"}
    return Operator(**{**fields, "prepare": prepare, "defaults": {"factor": 0.5}, **changes})


def test_an_operator_object_needs_no_name_in_any_list(home, make_adapter):
    parent = make_adapter(1)
    child = mutate(parent, halved(), 1)
    for path, slot in child.slots.items():
        assert torch.equal(slot.B, parent.slots[path].B / 2)
    same = mutate(parent, OPERATORS["svd_structured"], 1)
    named = mutate(parent, "svd_structured", 1)
    assert all(torch.equal(same.slots[path].B, slot.B) for path, slot in named.slots.items())
    record = mutate_directory(halved(), home / "p", home / "c", seed=1, factor=0.25)
    assert (record.operator, record.plugin) == ("halved", None)
    assert record.relative_change == pytest.approx(0.75, rel=1e-6)
    assert read_lineage(home / "c") == record
    with pytest.raises(LoraEvoError, match="'halved' is not known here: it was given as an object"):
        verify(home / "c")
    with pytest.raises(LoraEvoError, match="like a built-in one, but is another"):
        mutate(parent, halved(name="neftune"), 1)
    with pytest.raises(LoraEvoError, match="given as a int"):
        mutate(parent, 3, 1)


def test_a_crossover_of_ones_own(home, make_adapter):
    def prepare(request):
        def recipe(path, slots):
            taken = slots[1]
            return replace(measured(path, slots[0], replace(taken, A=taken.A.double())), source=1)

        return recipe

    second = halved(name="second", kind="crossover", prepare=prepare, defaults={})
    one, two = make_adapter(1), make_adapter(2)
    child = cross([one, two], second, 1)
    for path, slot in child.slots.items():
        assert torch.equal(slot.A, two.slots[path].A)
        assert slot.A.dtype == torch.float32
    save_adapter(two, home / "q")
    record = cross_directory(second, [home / "p", home / "q"], home / "c", seed=1, threads=2)
    assert {row.source for row in record.modules.values()} == {1}
    with pytest.raises(LoraEvoError, match="second crosses at least two parents"):
        cross([one], second, 1)
    with pytest.raises(LoraEvoError, match="second is a crossover, not a mutation"):
        mutate(one, second, 1)


def test_parameters_must_fit_on_record(make_adapter):
    with pytest.raises(LoraEvoError, match="parameter of halved cannot be put on record as JSON"):
        mutate(make_adapter(1), halved(), 1, factor=torch.tensor(0.5))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "two words"}, "named 'two words'"),
        ({"kind": "merge"}, "kind 'merge'"),
        ({"prepare": None}, "expected a function"),
        ({"default_strength": -1}, "default_strength is -1"),
        ({"default_strength": float("nan")}, "default_strength is nan"),
        ({"defaults": {"seed": 1}}, "a parameter 'seed'"),
        ({"defaults": {"a b": 1}}, "a parameter 'a b'"),
        ({"defaults": {"a": {1, 2}}}, "cannot be written as JSON"),
        ({"defaults": {"a": float("inf")}}, "cannot be written as JSON"),
    ],
)
def test_operators_that_cannot_be_are_refused_when_they_are_made(changes, words):
    with pytest.raises(LoraEvoError, match=words):
        halved(**changes)


def test_unchanged_is_at_hand_for_authors(make_adapter):
    slot = make_adapter(1).slots["model.layers.0.self_attn.q_proj"]
    assert unchanged(slot).relative_change == 0.0
    assert measured("q", slot, slot).relative_change == 0.0
