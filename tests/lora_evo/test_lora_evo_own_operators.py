"""Operators given as objects or as `module:function`: run like ours, and recorded by name."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lora_evo import (
    OPERATORS,
    LoraEvoError,
    Operator,
    cross,
    cross_directory,
    measured,
    mutate,
    mutate_directory,
    read_lineage,
    save_adapter,
    verify,
)


@pytest.fixture
def home(tmp_path, make_adapter):
    save_adapter(make_adapter(1), tmp_path / "p")
    return tmp_path


def halved(**changes):
    def prepare(request):
        def recipe(path, slots):
            slot = slots[0]
            return measured(path, slot, replace(slot, B=slot.B * request.parameters["factor"]))

        return recipe

    fields = {"name": "halved", "kind": "mutation", "summary": "s", "preserves": "p"}
    return Operator(**{**fields, "prepare": prepare, "defaults": {"factor": 0.5}, **changes})


def test_an_operator_object_is_run_recorded_and_verified(home, make_adapter):
    parent = make_adapter(1)
    child = mutate(parent, halved(), 1)
    for path, slot in child.slots.items():
        assert torch.equal(slot.B, parent.slots[path].B / 2)
    record = mutate_directory(halved(), home / "p", home / "c", seed=1, factor=0.25)
    assert record.operator == "halved"
    assert record.relative_change == pytest.approx(0.75, rel=1e-6)
    assert read_lineage(home / "c") == record
    assert verify(home / "c", operator=halved()).identical
    with pytest.raises(LoraEvoError, match="cannot be made again: there is no operator 'halved'"):
        verify(home / "c")


def test_one_of_ours_may_be_given_as_object_or_by_its_function(make_adapter):
    parent, ours = make_adapter(1), OPERATORS["neftune"]
    named = mutate(parent, "neftune", 1)
    twin = replace(ours, name="twin")
    for operator in (ours, twin, replace(twin, prepare=twin.recipe)):
        child = mutate(parent, operator, 1)
        assert all(torch.equal(child.slots[path].A, slot.A) for path, slot in named.slots.items())


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
    record = cross_directory(second, [home / "p", home / "q"], home / "c", seed=1)
    assert {row.source for row in record.modules.values()} == {1}
    with pytest.raises(LoraEvoError, match="second crosses at least two parents"):
        cross([one], second, 1)
    with pytest.raises(LoraEvoError, match="second is a crossover, not a mutation"):
        mutate(one, second, 1)


def test_a_child_of_another_shape_is_refused(make_adapter):
    def prepare(request):
        return lambda path, slots: measured(
            path, slots[0], replace(slots[0], A=slots[0].A[:2], B=slots[0].B[:, :2])
        )

    with pytest.raises(LoraEvoError, match=r"shape \[2, 24\]; expected the parent's \[4, 24\]"):
        mutate(make_adapter(1), halved(prepare=prepare), 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "two words"}, "named 'two words'"),
        ({"kind": "merge"}, "kind 'merge'"),
        ({"defaults": {"seed": 1}}, "a parameter 'seed'"),
        ({"defaults": {"a b": 1}}, "a parameter 'a b'"),
    ],
)
def test_operators_that_cannot_be_are_refused_when_they_are_made(changes, words):
    with pytest.raises(LoraEvoError, match=words):
        halved(**changes)


def test_the_name_of_one_of_ours_is_taken(make_adapter):
    with pytest.raises(LoraEvoError, match="called 'neftune' like a built-in one"):
        mutate(make_adapter(1), halved(name="neftune"), 1)


def test_the_example_makes_a_child_of_the_strength(home):
    example = Path(__file__).parents[2] / "examples" / "lora_evo" / "rank_one_noise.py"
    words = [sys.executable, str(example), "p", "c"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=home, check=True)
    assert done.stdout.splitlines() == ["c: relative change 0.1", "verified: True"]
