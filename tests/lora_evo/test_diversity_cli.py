"""`lora-evo diversity` and `lora-evo distance`, from folders to tables and JSON."""

import json
import sys

import pytest
from lora_evo_command import call

from lora_evo import (
    distance,
    diversity,
    retention,
    save_adapter,
)
from lora_evo.commands.terminal import counter


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2, 3):
        save_adapter(make_adapter(seed, r=seed + 1), tmp_path / "pop" / f"m{seed}")
    return tmp_path


def test_a_folder_and_its_members_named_one_by_one_are_the_same_table(home):
    whole = call("diversity", "pop", "--json").stdout
    assert whole == call("diversity", "pop/m1", "pop/m2", "pop/m3", "--json").stdout
    found = json.loads(whole)
    assert found["names"] == ["m1", "m2", "m3"]
    assert len(found["closest"]) == 2
    assert 1 < found["effective_members"] <= 3
    lines = call("diversity", "pop").stdout.splitlines()
    assert lines[1].split() == ["member", "norm", "mean", "distance", "nearest", "distance"]
    assert "3 members" in lines[-1]
    assert "distinct in effect, mean distance" in lines[-1]


def test_distance_by_module_and_as_json(home, make_adapter):
    one, two = make_adapter(1, r=2), make_adapter(2, r=3)
    found = json.loads(call("distance", "pop/m1", "pop/m2", "--json").stdout)
    assert found["distance"] == pytest.approx(distance(one, two), rel=1e-9)
    both = diversity([one, two])
    assert found["cosine"] == pytest.approx(both.cosines[0][1], abs=1e-9)
    assert found["norm_ratio"] == pytest.approx(both.norms[1] / both.norms[0])
    assert found["relative_change"] == retention(one, two).whole.relative_change
    lines = call("distance", "pop/m1", "pop/m2").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["module", *found["modules"], "all"]


def test_distance_from_a_zero_update(home, make_adapter):
    save_adapter(make_adapter(1, r=2, zero=True), home / "zero")
    found = json.loads(call("distance", "zero", "pop/m1", "--json").stdout)
    assert found["distance"] == pytest.approx(2**0.5)
    assert found["cosine"] is found["norm_ratio"] is None
    assert "from zero" in call("distance", "zero", "pop/m1").stdout
    assert json.loads(call("distance", "zero", "zero", "--json").stdout)["distance"] == 0


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=terminal: shown)
        with counter("training steps") as progress:
            for done in range(1, 301):
                progress(done, 300)
        shown = capsys.readouterr().err
        assert ("training steps" in shown, "100%" in shown) == (terminal, terminal)


def test_one_line_for_each_that_cannot_be_compared_and_the_rest_is(home, make_adapter):
    whole = json.loads(call("diversity", "pop", "--json").stdout)
    save_adapter(make_adapter(4, r=2, layers=1), "pop/shallow")
    save_adapter(make_adapter(4, r=2, base="another"), "pop/stranger")
    done = call("diversity", ".", "--json", code=1)
    assert json.loads(done.stdout) == whole
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for name in ("shallow", "stranger"):
        assert sum(f"pop/{name}" in line and line.endswith("left out") for line in lines) == 1
