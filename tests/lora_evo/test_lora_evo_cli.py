"""The command: what it prints, how it ends, and that it never shows a traceback."""

import json
import runpy
import sys

import pytest
from click.testing import CliRunner

from lora_evo import OPERATORS, Lineage, __version__, content_hash, save_adapter
from lora_evo.cli import main


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_adapter(make_adapter(1), tmp_path / "p1")
    save_adapter(make_adapter(2), tmp_path / "p2")
    return tmp_path


def call(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_a_family_from_start_to_end(home):
    out = call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1, "--strength", 0.1)
    assert "relative change 0.1," in out.stdout
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
    assert (
        made == call("mutate", "svd_structured", "p1", "--out", "x", "--seed", 1, "--json").stdout
    )
    assert json.loads(made)["content_hash"] == content_hash("c")
    record = Lineage.from_json((home / "c" / "lineage.json").read_text())
    assert json.loads(made) == json.loads(record.to_json())
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


def test_threads_and_overwrite(home):
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1, "--threads", 2)
    one = (home / "c" / "adapter_model.safetensors").read_bytes()
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 2, "--overwrite")
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1, "--overwrite")
    assert (home / "c" / "adapter_model.safetensors").read_bytes() == one


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("mutate svd_structure p1 --out c --seed 1", "did you mean 'svd_structured'"),
        ("mutate slot_swap p1 --out c --seed 1", "crossover"),
        ("mutate svd_structured nowhere --out c --seed 1", "not a folder"),
        ("mutate svd_structured p1 --out p2 --seed 1", "exists already"),
        ("mutate svd_structured p1 --out c --seed -1", "seed"),
        ("mutate svd_structured p1 --out c --seed 1 --strength -0.5", "at least 0"),
        ("mutate svd_structured p1 --out c --seed 1 --strength nan", "nan"),
        ("mutate svd_structured p1 --out c --seed 1 --set rotation", "NAME=VALUE"),
        ("mutate svd_structured p1 --out c --seed 1 --set rot=1", "no parameter 'rot'"),
        ("mutate svd_structured p1 --out c --seed 1 --set seed=1", "option of its own"),
        ("mutate svd_structured p1 --out c --seed 1 --set operator=1", "no parameter"),
        ("mutate svd_structured p1 --out c --seed 1 --threads 0", "threads"),
        ("cross slot_swap p1 --out c --seed 1", "at least two parents"),
        ("cross slot_swap p1 p1 --out c --seed 1", "given twice"),
        ("cross slot_swap p1 p2 --out c --seed 1 --weights 1", "1 weight"),
        ("cross slot_swap p1 p2 --out c --seed 1 --weights a,b", "joined by commas"),
        ("inspect nowhere", "not a folder"),
        ("distance p1 nowhere", "not a folder"),
        ("verify p1", "was not bred"),
        ("lineage nowhere", "not a folder"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(home, words, reason):
    result = call(*words.split(), code=2)
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in home.iterdir()) == ["p1", "p2"]


def test_click_own_refusals_are_code_2(home):
    call("mutate", "svd_structured", "p1", "--out", "c", code=2)
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", "x", code=2)
    call("no-such-command", code=2)


def test_damaged_files_are_one_line(home):
    weights = home / "p1" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    for words in ("inspect p1", "mutate svd_structured p1 --out c --seed 1", "lineage ."):
        assert "truncated" in call(*words.split(), code=2).stderr
    assert not (home / "c").exists()


def test_a_child_that_is_not_its_recipe_is_code_1(home):
    call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1)
    file = home / "c" / "lineage.json"
    file.write_text(file.read_text().replace('"seed": 1', '"seed": 2'))
    out = call("verify", "c", code=1).stdout
    assert "NOT verified" in out
    assert "modules differ" in out
    assert json.loads(call("verify", "c", "--json", code=1).stdout)["identical"] is False


def test_a_full_disk_is_code_1(home, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lora_evo.files.tensor_file.TensorWriter.write", full)
    result = call("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1, code=1)
    assert "No space left" in result.stderr
    assert sorted(path.name for path in home.iterdir()) == ["p1", "p2"]


def test_an_interrupted_command_is_code_130(home, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lora_evo.files.tensor_file.TensorWriter.write", interrupted)
    words = ("mutate", "svd_structured", "p1", "--out", "c", "--seed", 1)
    assert call(*words, code=130).stderr == "lora-evo: interrupted\n"
    assert sorted(path.name for path in home.iterdir()) == ["p1", "p2"]


def test_module_door(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lora_evo", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("lora_evo", run_name="__main__")
    assert ended.value.code == 0
    assert __version__ in capsys.readouterr().out
