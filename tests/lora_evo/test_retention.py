"""Distances and retention against the dense answers they stand for, in Python and as commands."""

import json
import math
from dataclasses import replace

import pytest
import torch
from by_hand import changed, dense, doubled, flipped, regauged, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from lora_evo_command import call as command

from lora_evo import (
    LoraEvoError,
    distance,
    mutate,
    save_adapter,
    write_child,
)
from lora_evo.compare import inspect_directory, retention

MEMBER = st.tuples(st.integers(0, 99), st.integers(1, 6), st.floats(0.5, 20), st.booleans())


@settings(max_examples=40)
@given(MEMBER, MEMBER)
def test_equals_dense_for_any_ranks_and_scales(make_adapter, first, second):
    pair = first, second
    one, two = (make_adapter(s, r=r, alpha=a, use_rslora=x) for s, r, a, x in pair)
    one = regauged(doubled(one), 3, 3.0)
    x, y = whole(one), whole(two)
    found, wanted = retention(one, two).whole, float((x - y).norm())
    mean = float(((x.norm() ** 2 + y.norm() ** 2) / 2).sqrt())
    assert found.distance == pytest.approx(wanted / mean, rel=1e-6, abs=1e-9)
    assert found.relative_change == pytest.approx(wanted / float(x.norm()), rel=1e-6, abs=1e-9)
    assert found.cosine == pytest.approx(float(x @ y / (x.norm() * y.norm())), abs=1e-9)
    assert found.norm_ratio == pytest.approx(float(y.norm() / x.norm()), rel=1e-9)


def test_equal_updates_of_other_factors_are_exactly_zero_apart(make_adapter):
    for rank, inputs, outputs in ((4, 24, 32), (32, 400, 300)):
        one = make_adapter(1, r=rank, inputs=inputs, outputs=outputs, layers=1)
        assert distance(one, flipped(one)) == 0
        path = one.paths[0]
        near = one.slots[path].B.clone()
        near[0, 0] = torch.nextafter(near[0, 0], torch.tensor(1.0))
        slots = {**one.slots, path: replace(one.slots[path], B=near)}
        assert 0 < distance(one, replace(one, slots=slots)) < 1e-6


def test_small_gaps_keep_their_digits(make_adapter):
    one = make_adapter(1, dtype=torch.float64)
    for size in (1e-3, 1e-6, 1e-10):
        two = changed(one, lambda a, b, size=size: (a, b * (1 + size)))
        assert distance(one, two) == pytest.approx(size, rel=2e-3)


def test_modules_are_inspected_as_dense_matrices_say(make_adapter, tmp_path):
    keep = torch.tensor([0.0, 0.0, 0.0, 1.0])
    whole = make_adapter(1)
    masked = changed(whole, lambda a, b: (a * keep[:, None], b * keep))
    for name, adapter, rank in (("whole", whole, 4), ("masked", masked, 1)):
        save_adapter(adapter, tmp_path / name)
        for path, row in inspect_directory(tmp_path / name)["modules"].items():
            slot, matrix = adapter.slots[path], dense(adapter.slots[path])
            values = torch.linalg.svdvals(matrix)[:rank]
            shares = values / values.sum()
            entropy = -float((shares * shares.log()).sum())
            assert row["norm"] == pytest.approx(float(matrix.norm()), rel=1e-6)
            assert row["norm_a"] == pytest.approx(float(slot.A.double().norm()))
            assert row["norm_b"] == pytest.approx(float(slot.B.double().norm()))
            assert row["effective_rank"] == pytest.approx(math.exp(entropy), rel=1e-4)
            assert (row["rank"], row["numerical_rank"], row["dead"]) == (4, rank, 4 - rank)
    save_adapter(make_adapter(3, zero=True), tmp_path / "zero")
    for row in inspect_directory(tmp_path / "zero")["modules"].values():
        assert (row["effective_rank"], row["numerical_rank"], row["dead"]) == (0, 0, 0)


def test_directories_give_the_same_and_name_their_faults(make_adapter, tmp_path):
    parent = make_adapter(1)
    child = mutate(parent, "svd_structured", seed=1, strength=0.3)
    save_adapter(parent, tmp_path / "p")
    save_adapter(child, tmp_path / "c")
    found = retention(tmp_path / "p", tmp_path / "c")
    assert found == retention(parent, child)
    assert found.whole.relative_change == pytest.approx(0.3, rel=1e-4)
    save_adapter(make_adapter(1, layers=1), tmp_path / "short")
    with pytest.raises(LoraEvoError, match="different modules"):
        retention(tmp_path / "p", tmp_path / "short")
    with pytest.raises(LoraEvoError, match=r"the parent has .* 'tiny', the child has 'other'"):
        retention(tmp_path / "p", make_adapter(1, base="other"))


@pytest.fixture
def home(home, make_adapter):
    save_adapter(make_adapter(3, zero=True), home / "zero")
    write_child("svd_structured", ["p1"], "c", seed=1, strength=0.25)
    write_child("slot_swap", ["c", "p2"], "d", seed=2)
    return home


def call(*words, code=0):
    return command("retention", *words, code=code)


def test_parents_are_named_or_come_from_the_lineage(home):
    assert call("c").stdout.startswith("c against p1: change 0.25, distance ")
    assert call("d").stdout.count(" against ") == 2
    found = json.loads(call("c", "--parent", "p1", "--parent", "p2", "--json").stdout)
    assert list(found["parents"]) == ["p1", "p2"]
    near = found["parents"]["p1"]
    assert near["whole"]["relative_change"] == pytest.approx(0.25, rel=1e-4)
    assert len(near["modules"]) == 4
    unbred = json.loads(call("p2", "--parent", "zero", "--json").stdout)
    assert unbred["parents"]["zero"]["whole"]["relative_change"] is None


def test_the_command_by_module_and_as_json(home, make_adapter):
    one, two = make_adapter(1), make_adapter(2)
    found = json.loads(command("distance", "p1", "p2", "--json").stdout)
    assert found.items() > retention(one, two).whole.to_dict().items()
    assert "from zero" in command("distance", "zero", "p1").stdout
    lines = command("distance", "p1", "p2").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["module", *found["modules"], "all"]
