"""Distances of updates against the dense way, from adapters and from the command."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from by_hand import doubled, flipped, regauged, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from lora_evo_command import call

from lora_evo import LoraEvoError, distance, retention, save_adapter
from lora_evo.commands.terminal import counter

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


def test_adapters_that_cannot_be_compared(make_adapter):
    one = make_adapter(1)
    for other, words in (
        (make_adapter(1, base="other"), r"the parent has .* 'tiny', the child has 'other'"),
        (make_adapter(1, layers=1), "the parent and the child sit on different modules"),
        (make_adapter(1, outputs=8), "same base model"),
    ):
        with pytest.raises(LoraEvoError, match=words):
            retention(one, other)


def test_the_command_by_module_and_as_json(home, make_adapter):
    one, two = make_adapter(1), make_adapter(2)
    found = json.loads(call("distance", "p1", "p2", "--json").stdout)
    assert found.items() > retention(one, two).whole.to_dict().items()
    lines = call("distance", "p1", "p2").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["module", *found["modules"], "all"]


def test_distance_from_a_zero_update(home, make_adapter):
    save_adapter(make_adapter(1, zero=True), home / "zero")
    found = json.loads(call("distance", "zero", "p1", "--json").stdout)
    assert found["distance"] == pytest.approx(2**0.5)
    assert found["cosine"] is found["norm_ratio"] is None
    assert "from zero" in call("distance", "zero", "p1").stdout
    assert json.loads(call("distance", "zero", "zero", "--json").stdout)["distance"] == 0


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=terminal: shown)
        with counter("training steps") as progress:
            for done in range(1, 301):
                progress(done, 300)
        shown = capsys.readouterr().err
        assert ("training steps" in shown, "100%" in shown) == (terminal, terminal)
