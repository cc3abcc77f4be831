"""The command as a person types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evals import load_benchmark
from evals.cli import main
from evals.metrics.aggregate import CODE, MATH


def _run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def _fails(code: int, message: str, *arguments: object) -> None:
    result = _run(*arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory, model_folder: Path, adapter_folders: dict[str, Path]):
    """A finished run of the base and two adapters: its folder, arguments and result."""
    out = tmp_path_factory.mktemp("runs") / "out"
    arguments = (
        *("run", "--model", model_folder, "--base", "--adapter", adapter_folders["one"]),
        *("--adapter", f"second={adapter_folders['two']}", "--device", "cpu"),
        *("--benchmark", "nano_code_o,nano_code_i", "--limit", 4, "--max-tokens", 24, "--out", out),
    )
    return out, arguments, _run(*arguments)


def test_run_writes_per_adapter_and_benchmark(finished) -> None:
    out, _, result = finished
    assert result.exit_code == 0, result.output
    found = sorted(str(path.relative_to(out)) for path in out.rglob("result.json"))
    assert found == [
        f"{adapter}/{benchmark}/result.json"
        for adapter in ("base", "one", "second")
        for benchmark in ("nano_code_i", "nano_code_o")
    ]
    samples = (out / "one" / "nano_code_o" / "samples.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in samples]
    assert [row["sample"] for row in rows] == [0] * 4
    assert set(rows[0]) == {"id", "sample", "response", "truncated", "tokens"}
    made = json.loads((out / "one" / "nano_code_o" / "result.json").read_text())
    assert made["settings"]["model"] == "tiny"
    assert made["settings"]["adapter_hash"].startswith("sha256:")
    assert made["partial"] is True
    assert set(made["levels"]) == {"1", "2", "3", "4"}
    texts = {
        (out / name / "nano_code_o" / "samples.jsonl").read_text()
        for name in ("base", "one", "second")
    }
    assert len(texts) == 3
    for path in out.rglob("*.json*"):
        assert str(out.parent.parent) not in path.read_text()
    assert "second" in result.stdout
    assert "* part of the benchmark" in result.stdout


def test_run_again_changes_nothing_and_other_settings_are_refused(finished) -> None:
    out, arguments, _ = finished
    before = {path: path.read_bytes() for path in out.rglob("*.json*")}
    again = _run(*arguments, "--json")
    assert again.exit_code == 0
    assert len(json.loads(again.stdout)["results"]) == 6
    assert before == {path: path.read_bytes() for path in out.rglob("*.json*")}
    _fails(2, "seed was 0, now 7", *arguments, "--seed", 7)


def test_report_shows_finished_runs(finished, tmp_path: Path) -> None:
    out, _, _ = finished
    table = _run("report", out)
    assert table.exit_code == 0
    assert "population mean of 2" in table.stdout
    details = _run("report", out, "--table", "details").stdout
    assert details.count("nano_code_i*") == 3
    assert "level 4" in details
    found = json.loads(_run("report", out, out / "one", "--against", "base", "--json").stdout)
    assert len(found["results"]) == 6
    assert [row["label"] for row in found["table"]["rows"]][:2] == ["base", "one"]
    assert len(found["comparisons"]) == 4
    assert "\\begin{tabular}" in _run("report", out, "--table", "latex").stdout
    assert "| --- |" in _run("report", out, "--table", "markdown").stdout
    compared = _run("report", out, "--against", "one").stdout.splitlines()
    assert compared[-1].split()[:3] == ["second", "one", "nano_code_o"]
    _fails(2, "did you mean 'one'", "report", out, "--against", "on")
    _fails(2, "no results of 'x'", "report", out, "--baseline", "x")
    _fails(2, "no finished result", "report", tmp_path)
    _fails(2, "no folder", "report", tmp_path / "absent")
    (tmp_path / "result.json").write_text('{"adapter": "x"}')
    _fails(2, "not a result of `evals run`", "report", tmp_path)
    (tmp_path / "result.json").write_text('{"adapter"')
    _fails(2, "not JSON", "report", tmp_path)


def test_grade_judges_saved_responses(tmp_path: Path) -> None:
    questions = load_benchmark("nano_code_o").questions[:3]
    rows = [
        {"id": questions[0].id, "response": f"<|answer|>{questions[0].problem.output}"},
        {"id": questions[0].id, "response": "<|answer|>'no'"},
        {"id": questions[1].id, "response": "?"},
    ]
    samples, out = tmp_path / "samples.jsonl", tmp_path / "verdicts.jsonl"
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = _run("grade", "nano_code_o", samples, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["overall"]["solved"], summary["unanswered"]) == (1, 398)
    verdicts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(v["sample"], v["correct"]) for v in verdicts] == [(0, True), (1, False), (0, False)]
    assert "1 of 3 samples right" in _run("grade", "nano_code_o", samples, "--out", out).stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: found list"),
        ('{"id": "nano_code_o/1"}', "field 'response' is missing"),
        ('{"id": "nano_code_o/1", "response": "x", "sample": -1}', "sample is -1"),
        ('{"id": "nano_code_o/0", "response": "x", "sample": 0}', "came before"),
        ('{"id": "zz", "response": "x"}', "has no task 'zz'"),
    ],
)
def test_grade_refuses_bad_rows(tmp_path: Path, line: str, message: str) -> None:
    samples = tmp_path / "samples.jsonl"
    samples.write_text(f'{{"id": "nano_code_o/0", "response": "x"}}\n{line}\n')
    out = tmp_path / "verdicts.jsonl"
    _fails(2, message, "grade", "nano_code_o", samples, "--out", out)
    assert not out.exists()


def test_wrong_use_is_one_line_and_exit_code_two(
    tmp_path: Path, model_folder: Path, adapter_folders: dict[str, Path]
) -> None:
    start = ("run", "--model", model_folder, "--device", "cpu", "--limit", 1)
    end = ("--benchmark", "nano_code_o", "--out", tmp_path / "out")
    _fails(2, "no adapter folder", *start, "--adapter", tmp_path / "absent", *end)
    _fails(2, "did you mean 'nano_code_f'", *start, "--benchmark", "nano_cod_f", "--out", tmp_path)
    _fails(2, "--n", *start, "--n", -1, *end)
    _fails(2, "add --temperature", *start, "--n", 2, *end)
    file = tmp_path / "file"
    file.touch()
    _fails(2, "file", *start, "--benchmark", "nano_code_o", "--out", file / "out")
    cut = tmp_path / "cut"
    cut.mkdir()
    for source in adapter_folders["one"].iterdir():
        (cut / source.name).write_bytes(source.read_bytes()[:2000])
    _fails(2, "cut", *start, "--adapter", cut, *end)
    _fails(2, "absent.jsonl", "grade", "nano_code_o", tmp_path / "absent.jsonl", "--out", file)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("result.json"))


def test_list_doctor_and_version() -> None:
    rows = json.loads(_run("list", "--json").stdout)
    names = ["nano_code_o", "nano_code_i", "nano_code_f", "nano_long"]
    assert [row["name"] for row in rows] == [*CODE, *MATH, *names]
    assert rows[0]["tasks"] == [164]
    assert rows[-1]["recipes"] == ["plain"]
    assert "nano_code_f" in _run("list").stdout
    found = json.loads(_run("doctor", "--json").stdout)
    assert {"python", "torch", "transformers"} <= set(found["versions"])
    assert "device" in _run("doctor").stdout
    assert "evals" in _run("--version").stdout


def test_importing_evals_does_not_import_torch() -> None:
    code = "import evals, sys; print('torch' in sys.modules, 'selfplay' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_members_of_a_run_are_evaluated_on_their_own_base(
    model_folder: Path, make_adapter, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for i, name in enumerate(("s10", "s2", "t0")):
        make_adapter(run / "members" / name, i + 1, base=str(model_folder))
    make_adapter(run / "members" / "s0", 8, base=str(model_folder))
    (run / "league").mkdir()
    replaced = {"event": "member_replaced", "member": "s0", "child": "s2"}
    (run / "league" / "events.jsonl").write_text(json.dumps(replaced) + '\n{"event": "memb')
    (run / "members" / ".s3.part").mkdir()
    asked = ("--benchmark", "nano_code_o", "--limit", 1, "--max-tokens", 4, "--device", "cpu")
    done = _run("run", "--run", run, *asked, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert [row["adapter"] for row in json.loads(done.stdout)["results"]] == ["s2", "s10", "t0"]
    _fails(2, "no base model is named", "run", *asked, "--out", tmp_path / "x")
    _fails(2, "holds no members", "run", "--run", tmp_path, *asked, "--out", tmp_path / "x")
    twice = ("--run", run, "--adapter", run / "members" / "t0", *asked)
    _fails(2, "has a member 't0' too", "run", *twice, "--out", tmp_path / "x")
    make_adapter(run / "members" / "s3", 9, base="other/model")
    _fails(2, "name different base models", "run", "--run", run, *asked, "--out", tmp_path / "x")
