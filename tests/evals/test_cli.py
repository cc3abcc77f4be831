"""The command as a person types it."""

import errno
import json
import os

import pytest
from closed_streams import same_without_streams
from evals_commands import fails, run
from json_lines import read_rows, write_rows
from meanwhile import executing_fails
from stopping import stops_and_gives_back

from evals.console import Commands
from evals.recipes import CODE, CRUXEVAL, MATH

GSM8K = [{"question": f"{a} + {a}?", "answer": f"#### {2 * a}"} for a in range(1, 9)]
AMC = [{"id": a, "problem": f"{a} * 2?", "answer": 2.0 * a} for a in range(1, 9)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Options that name the data of two benchmarks, and how they are asked."""
    folder = tmp_path_factory.mktemp("data")
    found = (("gsm8k", GSM8K), ("amc23", AMC))
    files = [f"{name}={write_rows(folder / name, rows)}" for name, rows in found]
    options = ("--benchmark", "gsm8k,amc23", "--data", files[0], "--data", files[1])
    return (*options, "--recipe", "azr", "--max-tokens", "8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, data, model_folder, adapter_folders):
    """A finished run of the base and two adapters: its folder, arguments and result."""
    out = tmp_path_factory.mktemp("runs") / "out"
    arguments = (
        *("run", "--model", model_folder, "--base", "--adapter", adapter_folders["one"]),
        *("--adapter", f"second={adapter_folders['two']}", *data, "--limit", 4, "--out", out),
    )
    return out, arguments, run(*arguments)


def test_run_writes_per_adapter_and_benchmark(finished):
    out, _, result = finished
    assert result.exit_code == 0, result.output
    found = sorted(str(path.relative_to(out)) for path in out.rglob("result.json"))
    assert found == [
        f"{adapter}/{benchmark}/result.json"
        for adapter in ("base", "one", "second")
        for benchmark in ("amc23", "gsm8k")
    ]
    rows = read_rows(out / "one" / "gsm8k" / "samples.jsonl")
    assert [row["sample"] for row in rows] == [0] * 4
    assert set(rows[0]) == {"id", "sample", "response", "truncated", "tokens"}
    made = json.loads((out / "one" / "gsm8k" / "result.json").read_text())
    assert made["settings"]["model"] == "tiny"
    assert made["settings"]["adapter_hash"].startswith("sha256:")
    assert made["partial"] is True
    texts = {(out / a / "gsm8k" / "samples.jsonl").read_text() for a in ("base", "one", "second")}
    assert len(texts) == 3
    for path in out.rglob("*.json*"):
        assert str(out.parent.parent) not in path.read_text()


def test_run_again_changes_nothing_and_other_settings_are_refused(finished):
    out, arguments, _ = finished
    before = {path: path.read_bytes() for path in out.rglob("*.json*")}
    again = run(*arguments, "--json")
    assert again.exit_code == 0
    assert len(json.loads(again.stdout)["results"]) == 6
    assert before == {path: path.read_bytes() for path in out.rglob("*.json*")}
    fails(2, "seed was 0, now 7", *arguments, "--seed", 7)
    said = "chat_template_args was None, now {'enable_thinking': False}"
    fails(2, said, *arguments, "--chat-template-args", "enable_thinking=false")
    fails(2, "expected NAME=VALUE", *arguments, "--chat-template-args", "enable_thinking=False")


def test_report_shows_finished_runs(finished, tmp_path):
    out, _, _ = finished
    found = json.loads(run("report", out, out / "one", "--against", "base", "--json").stdout)
    assert len(found["results"]) == 6
    labels = ["base", "one", "second", "mean of 2 adapters", "weakest adapter", "best adapter"]
    assert [row["label"] for row in found["table"]["rows"]] == labels
    assert len(found["comparisons"]) == 4
    assert "| --- |" in run("report", out, "--format", "markdown").stdout
    fails(2, "did you mean 'one'", "report", out, "--against", "on")
    fails(2, "--measure maj@k needs a number", "report", out, "--measure", "maj@k")
    fails(2, "no finished result", "report", tmp_path)
    fails(2, "no folder", "report", tmp_path / "absent")


def grading(folder, *answers):
    """A file of answers by question, an output of its own folder, and the command for both."""
    data = write_rows(folder / "data", GSM8K)
    rows = [{"id": int(name), "response": text} for name, text in answers]
    samples, out = write_rows(folder / "samples", rows), folder / "new" / "verdicts"
    out.parent.mkdir()
    return samples, out, ("grade", "gsm8k", samples, "--data", data, "--out", out)


def test_grade_takes_saved_responses(tmp_path):
    texts = (("0", r"\boxed{2}"), ("0", r"\boxed{3}"), ("1", "?"))
    samples, out, arguments = grading(tmp_path, *texts)
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["overall"]["solved"], summary["unanswered"]) == (1, 6)
    verdicts = read_rows(out)
    assert [(v["sample"], v["correct"]) for v in verdicts] == [(0, True), (1, False), (0, False)]
    line = "gsm8k: 6 of 8 tasks have no sample; of the others, 1 of 3 samples right, rate"
    assert run(*arguments).stdout.startswith(line)
    out.unlink()
    samples.write_text(samples.read_text() + '{"id": "zz", "response": "x"}\n')
    fails(2, "has no task 'zz'", *arguments)
    fails(2, "unknown benchmark 'gsm8k,amc23'", "grade", "gsm8k,amc23", samples, "--out", out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("prompts", "column", "extracted"),
    [
        ("Q<think>\n", None, [None, "3", None]),
        (None, "Q<think>\n", [None, "3", None]),
        ("Q<think>\n\n</think>\n", None, ["2", "3", None]),
        ("Q<think>\n", "Q", ["2", "3", None]),
        (None, None, ["2", "3", None]),
    ],
)
def test_grade_knows_from_prompts_where_a_thought_begins(prompts, column, extracted, tmp_path):
    cut = r"Let us try \boxed{2}. No wait"
    texts = (cut, rf"{cut}</think> \boxed{{3}}", f"<think>{cut}")
    samples, out, arguments = grading(tmp_path, *(("0", text) for text in texts))
    if prompts is not None:
        write_rows(tmp_path / "prompts.jsonl", [{"id": "0", "prompt": prompts}])
    if column is not None:
        write_rows(samples, [{**row, "prompt": column} for row in read_rows(samples)])
    assert run(*arguments).exit_code == 0
    assert [verdict["extracted"] for verdict in read_rows(out)] == extracted


def test_outputs_are_tried_before_the_work(tmp_path, data):
    away, file = tmp_path / "no" / "such", tmp_path / "file"
    file.touch()
    nothing = tmp_path / "absent"  # the work would find that this is missing
    for out, message in ((away / "v.jsonl", f"type: mkdir -p {away}"), (tmp_path, "not a file")):
        fails(2, message, "grade", "gsm8k", nothing, "--data", nothing, "--out", out)
        fails(2, message, "report", nothing, "--html", out)
    for out in (file, file / "out"):
        fails(2, f"{file} ", "run", "--model", nothing, *data, "--out", out)
    assert list(tmp_path.iterdir()) == [file]


def test_wrong_use_is_one_line_and_exit_code_two(tmp_path, data, model_folder, adapter_folders):
    out = tmp_path / "out"
    start = ("run", "--model", model_folder, "--limit", 1, *data)
    fails(2, "no adapter folder", *start, "--adapter", tmp_path / "absent", "--out", out)
    fails(2, "add --temperature", *start, "--n", 2, "--out", out)
    fails(2, "cannot be sampled with", *start, "--temperature", "nan", "--out", out)
    fails(2, "--grader is of questions of your own", *start, "--grader", "exact", "--out", out)
    own = ("--benchmark", f"mine={data[3].partition('=')[2]}", "--grader", "math")
    fails(2, "names its own data", *start[:5], *own, "--data", "other.jsonl", "--out", out)
    fails(2, "no prompt shows examples", *start, "--examples", "lost.jsonl", "--out", out)
    fails(2, "no base model is named", "run", *data, "--out", out)
    twice = ("--adapter", adapter_folders["one"], "--adapter", f"one={adapter_folders['two']}")
    fails(2, "two adapters are called 'one'", *start, *twice, "--out", out)
    fails(2, "absent.jsonl", "grade", "gsm8k", tmp_path / "absent.jsonl", *data[2:4], "--out", out)
    assert not list(out.rglob("result.json"))


def test_an_engine_that_is_not_installed_is_refused_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("lora_evo.model.vllm_server.find_spec", lambda name: None)
    command = ("run", "--model", "nano", "--engine", "vllm", "--benchmark", "gsm8k")
    fails(2, "error: the vllm engine needs vLLM", *command, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_list_doctor_and_version():
    rows = json.loads(run("list", "--json").stdout)
    assert [row["name"] for row in rows][:12] == [*CODE, *CRUXEVAL, *MATH]
    assert rows[0]["tasks"] == [164]
    found = json.loads(run("doctor", "--json").stdout)
    assert {"python", "torch", "transformers"} <= set(found["versions"])
    assert "evals" in run("--version").stdout


def test_signals_stop_a_command_and_are_given_back():
    stops_and_gives_back(Commands)


@pytest.mark.parametrize("lost", [0, 1, 6])
def test_what_the_sandbox_fails_on_is_no_result_of_grade(lost, tmp_path, monkeypatch):
    """lost: of ten samples; 0 stands for a sandbox that fails on every program."""
    executing_fails(monkeypatch, b"seven" if lost else b"")
    codes = [f"def f(x, {'seven' if n < lost else 'eight'}=7):\n    return x" for n in range(10)]
    rows = [
        {"id": str(n), "code": text, "input": "1", "output": "1"} for n, text in enumerate(codes)
    ]
    samples = [{"id": str(n), "response": "[ANSWER]f(1)[/ANSWER]"} for n in range(10)]
    data, file = write_rows(tmp_path / "data", rows), write_rows(tmp_path / "samples", samples)
    out = tmp_path / "verdicts"
    result = run("grade", "cruxeval_i", file, "--data", data, "--out", out)
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert "the fork server was lost: it ended" in line
    assert "`code-verifier doctor`" in line or lost == 1
    assert out.exists() == (lost == 1)
    if lost == 1:
        assert "9 of 9 samples right (1 not judged), rate 1.000" in result.stdout
        assert "1 of 10 samples were not judged (sandbox_error: the fork" in line
        assert [row["correct"] for row in read_rows(out)] == [None] + [True] * 9
    else:
        assert result.stdout == ""
        assert (f"{lost} of 10 samples were not judged" in line) == (lost > 0)
        assert ("type the same command again" in line) == (lost > 0)


def test_closed_streams_change_no_exit_code(finished, tmp_path):
    same_without_streams("evals", "report", finished[0])
    same_without_streams("evals", "report", tmp_path, code=2)


def test_a_file_system_without_locks_is_one_warning(finished, monkeypatch):
    def refuse(handle, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr("lora_evo.files._without_locks", set())
    result = run(*finished[1])
    assert (result.exit_code, result.stderr.count("cannot be locked")) == (0, 1)
