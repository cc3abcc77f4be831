"""All operators, ours and those given as objects: on disk as in memory, refused, recorded."""

import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from by_hand import breed, child_of, same

from lora_evo import (
    OPERATORS,
    LoraEvoError,
    Operator,
    cross,
    load_adapter,
    measured,
    mutate,
    read_lineage,
    save_adapter,
    verify,
    write_child,
)

MUTATIONS = [name for name, operator in OPERATORS.items() if operator.kind == "mutation"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATORS)
def test_directories_give_the_child_of_memory_and_verify(home, make_adapter, name, dtype):
    unequal = {} if name.startswith(("factor", "slot")) else {"r": 6, "alpha": 5}
    parents = [make_adapter(1, layers=3, dtype=dtype)]
    parents.append(make_adapter(2, layers=3, dtype=dtype, **unequal))
    for number, parent in enumerate(parents, start=1):
        save_adapter(parent, f"p{number}", overwrite=True)
    breed(name, ["p1", "p2"], "c")
    assert verify("c").identical
    assert same(load_adapter("c"), child_of(name, parents))


REFUSED = [
    *((name, {"strength": -0.1}, "from 0") for name in MUTATIONS),
    *((name, {"strength": 1.0}, "below 1") for name in MUTATIONS),
    ("full_gaussian", {"strength": math.nan}, "strength is nan"),
    ("full_gaussian", {"epsilon": 0.1}, "no parameter 'epsilon'"),
    ("full_gaussian", {"seed": -1}, "seed"),
    ("component_masking", {"tail": -1}, "tail is -1; expected a number from 0 to 10"),
    ("layer_selective_gaussian", {"share": 0}, "share is 0; expected above 0"),
    ("layer_selective_gaussian", {"level": "tensor"}, "one of module, block, layer"),
    ("extrapolate", {"fitness": [1]}, "expected 2 finite"),
    ("extrapolate", {"eta_low": 1.5, "eta_high": 1.2}, "eta_high is 1.2"),
    ("extrapolate", {"weights": [1, 2]}, "takes no weights"),
    ("dare", {"p": 1.0}, "p is 1.0"),
    ("factor_dare", {"p": True}, "p is True"),
    ("slot_swap", {"weights": [1]}, "1 weight"),
    ("slot_swap", {"weights": [1, -1]}, "at least 0"),
    ("slot_swap", {"weights": [0, 0]}, "not all 0"),
]


@pytest.mark.parametrize(("name", "given", "words"), REFUSED)
def test_settings_that_mean_nothing_are_refused(make_adapter, name, given, words):
    with pytest.raises(LoraEvoError, match=words):
        child_of(name, [make_adapter(1), make_adapter(2)], **given)


def test_parents_and_operators_that_do_not_fit_are_refused(make_adapter):
    one = make_adapter(1)
    broken = make_adapter(1)
    broken.slots[broken.paths[0]].A[0, 0] = math.inf
    for parents, operator, words in (
        ([one, make_adapter(2, r=8)], "slot_swap", "rank 4 in parent 1 and 8 in parent 2"),
        ([one] * 3, "extrapolate", "takes 2 parents; got 3"),
        ([broken, one], "average", "NaN or infinite"),
    ):
        with pytest.raises(LoraEvoError, match=words):
            cross(parents, operator, 1)


def halved(**changes):
    def prepare(setup):
        def recipe(path, slots):
            slot = slots[0]
            return measured(path, slot, replace(slot, B=slot.B * setup.parameters["factor"]))

        return recipe

    fields = {"name": "halved", "kind": "mutation", "summary": "s", "preserves": "p"}
    return Operator(**{**fields, "prepare": prepare, "defaults": {"factor": 0.5}, **changes})


def test_an_operator_object_is_run_recorded_and_verified(home, make_adapter):
    parent = make_adapter(1)
    child = mutate(parent, halved(), 1)
    for path, slot in child.slots.items():
        assert torch.equal(slot.B, parent.slots[path].B / 2)
    record = write_child(halved(), [home / "p1"], home / "c", seed=1, parameters={"factor": 0.25})
    assert record.operator == "halved"
    assert record.relative_change == pytest.approx(0.75, rel=1e-6)
    assert read_lineage(home / "c") == record
    assert verify(home / "c", operator=halved()).identical
    with pytest.raises(
        LoraEvoError,
        match=r"was made with 'halved', which is not built in; in Python: .*operator=OBJECT",
    ):
        verify(home / "c")


def test_one_of_ours_may_be_given_as_object_or_by_its_function(make_adapter):
    parent, ours = make_adapter(1), OPERATORS["full_gaussian"]
    named = mutate(parent, "full_gaussian", 1)
    twin = replace(ours, name="twin")
    for operator in (ours, twin, replace(twin, prepare=twin.recipe)):
        assert same(mutate(parent, operator, 1), named)


def test_a_crossover_of_ones_own(home, make_adapter):
    def prepare(setup):
        def recipe(path, slots):
            taken = slots[1]
            return replace(measured(path, slots[0], replace(taken, A=taken.A.double())), source=1)

        return recipe

    second = halved(name="second", kind="crossover", prepare=prepare, defaults={})
    one, two = make_adapter(1), make_adapter(2)
    assert same(cross([one, two], second, 1), two)
    record = write_child(second, ["p1", "p2"], "c", seed=1)
    assert {row.source for row in record.modules.values()} == {1}
    with pytest.raises(LoraEvoError, match="second takes at least two parents"):
        cross([one], second, 1)
    with pytest.raises(LoraEvoError, match="full_gaussian takes one parent; got 2"):
        write_child("full_gaussian", ["p1", "p2"], "d")
    with pytest.raises(LoraEvoError, match="second is a crossover, not a mutation"):
        mutate(one, second, 1)


def narrow(path, slots):
    return measured(path, slots[0], replace(slots[0], A=slots[0].A[:2], B=slots[0].B[:, :2]))


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda setup: lambda path, slots: slots[0], "halved returns a Slot for .*; expected the"),
        (lambda setup: lambda path: None, "halved fails at .*: TypeError.*; expected prepare"),
        (lambda setup: exit(3), "halved fails at its setup: SystemExit: 3"),
        (lambda setup: narrow, r"made a factor of shape \[2, 24\]; expected \[4, 24\]"),
    ],
)
def test_an_operator_that_does_not_work_is_blamed_in_one_line(make_adapter, prepare, words):
    with pytest.raises(LoraEvoError, match=words) as said:
        mutate(make_adapter(1), halved(prepare=prepare), 1)
    assert "\n" not in str(said.value)
    with pytest.raises(LoraEvoError, match="has the name 'full_gaussian' of a built-in"):
        mutate(make_adapter(1), halved(name="full_gaussian", prepare=prepare), 1)


def test_the_example_makes_a_child_of_the_strength(home, monkeypatch, capsys):
    example = str(Path(__file__).parents[2] / "examples" / "lora_evo" / "rank_one_noise.py")
    monkeypatch.setattr("sys.argv", [example, "p1", "c"])
    runpy.run_path(example, run_name="__main__")
    assert capsys.readouterr().out.splitlines() == ["c: relative change 0.1", "verified: True"]
