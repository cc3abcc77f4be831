"""The command: what it prints, how it ends, and that it never shows a traceback."""

import json

import pytest
from by_hand import edit_json
from closed_streams import run_without
from commands import lists_whole_sentences
from lora_evo_command import call

from lora_evo import OPERATORS, content_hash, verify
from lora_evo.cli import main


def test_a_family_from_start_to_end(home):
    out = call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1, "--strength", 0.1)
    assert "relative change 0.1\n" in out.stdout
    call("cross", "slot_swap", "c", "p2", "--out", "d", "--seed", 2, "--set", "level=layer")
    call("cross", "slot_swap", "c", "p2", "--out", "e", "--seed", 2, "--weights", "1,3")
    assert "identical" in call("verify", "c").stdout
    assert "identical" in call("verify", "d", "c", "p2").stdout
    tree = call("lineage", ".").stdout
    assert "└── c" in tree
    assert "slot_swap seed 2" in tree
    assert "model.layers.1.self_attn.v_proj" in call("inspect", "d").stdout
    assert call("distance", "p1", "c").stdout.splitlines()[-1].split()[-1] == "0.1"


def test_json_everywhere(home):
    made = call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1, "--json").stdout
    assert json.loads(made)["content_hash"] == content_hash("c")
    names = [row["name"] for row in json.loads(call("operators", "--json").stdout)]
    assert names == list(OPERATORS)
    assert json.loads(call("verify", "c", "--json").stdout)["identical"] is True
    gap = json.loads(call("distance", "p1", "c", "--json").stdout)
    assert gap["relative_change"] == pytest.approx(0.15, rel=1e-4)
    assert len(gap["modules"]) == 4
    view = json.loads(call("inspect", "c", "--json").stdout)
    assert view["content_hash"] == content_hash("c")
    assert view["config"]["r"] == 4
    rows = json.loads(call("lineage", ".", "--json").stdout)
    assert [row["generation"] for row in rows if row["name"] == "c"] == [1]


def test_a_child_that_is_not_its_recipe_is_code_1(home):
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1)
    edit_json(home / "c" / "lineage.json", {"seed": 2})
    out = call("verify", "c", code=1).stdout
    assert "NOT verified" in out
    assert "modules differ" in out
    assert json.loads(call("verify", "c", "--json", code=1).stdout)["identical"] is False


def test_an_interrupted_command_is_code_130(home, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lora_evo.peft.adapter._bytes_of", interrupted)
    words = ("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1)
    assert call(*words, code=130).stderr.strip() == "error: interrupted"
    assert sorted(path.name for path in home.iterdir()) == ["p1", "p2"]


def test_help_is_whole_at_80_columns():
    lists_whole_sentences(main)


def test_every_command_names_what_fits_no_module(home):
    for name in ("p1", "p2"):
        fields = {"target_modules": ["q_proj", "v_proj", "w_proj"], "alpha_pattern": {"q_prj": 3}}
        edit_json(home / name / "adapter_config.json", fields)
    without = "fit no module, so are without effect: target_modules 'w_proj', alpha_pattern 'q_prj'"
    for words in ("merge p1 p2 --out c", "distance p1 p2 --json", "retention c", "lineage p1 p2"):
        said = call(*words.split()).stderr.splitlines()
        assert said, words
        assert all(line.endswith(without) for line in said)


def test_closed_streams_change_neither_the_work_nor_the_exit_code(home):
    words = ("mutate", "svd_structured", "p1", "--seed", 1, "--out", "c")
    done = run_without("<&- >&- 2>&-", "lora_evo", *words)
    assert (done.returncode, verify("c").identical) == (0, True)


def test_a_missing_parent_is_a_line_with_the_command_to_type(home):
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1)
    (home / "p1").rename(home.parent / "moved")
    assert "lora-evo verify CHILD FOLDER" in call("verify", "c", code=1).stdout
    assert "identical" in call("verify", "c", home.parent).stdout
