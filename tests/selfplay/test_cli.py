"""The selfplay command: what it prints, what it refuses, and with which exit code."""

import json
import shutil
from collections import Counter

import pytest
from closed_streams import run_without
from commands import lists_whole_sentences

from lora_evo.model import vllm_server as installed
from selfplay.cli import main
from selfplay.files.record import read_run
from selfplay.settings import shipped
from selfplay_command import command, refused

PLANS = shipped("plans")


@pytest.fixture(scope="module")
def run(runs, tmp_path_factory):
    home = tmp_path_factory.mktemp("cli") / "run"
    result = command(*runs.arguments(home, "steps=1", "eval.eval_every=0"))
    assert result.exit_code == 0, result.output
    assert f"\ndone: {home}" in result.output
    return home


def test_help_is_whole_at_80_columns_and_names_what_ships():
    for group in (main, main.commands["nano"]):
        lists_whole_sentences(group)
    text = " ".join(command("train", "--help").output.split())
    assert f"one of {', '.join(shipped('presets'))} (" in text
    for words, listed in ((("presets",), shipped("presets")), (("experiment", "--help"), PLANS)):
        lines = command(*words, columns=80).output.splitlines()
        sentences = dict(pair for line in lines if len(pair := line.split(maxsplit=1)) == 2)
        assert all(sentences[name].endswith(".") for name in listed)


def test_train_refuses_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    home = tmp_path / "run"
    for flags, words in (
        (("--teachers", -1), "teachers is -1"),
        (("--set", "engine=vlm"), "did you mean vllm?"),
        (("--engine", "vllm"), "-m pip install 'vllm==0.32.*'"),
        (("--preset", "/no/such/file.yaml"), "/no/such/file.yaml"),
    ):
        refused(command("train", "--out", home, "--quiet", *flags), words)
        assert not home.exists()


def test_train_refuses_a_file_that_is_no_configuration(tmp_path):
    path = tmp_path / "my.yaml"
    for text in ("- a\n- b\n", "just text", "a: [", "steps: 3\nstep: 4\n", "\x00"):
        path.write_text(text)
        refused(command("train", "--preset", path, "--out", tmp_path / "run"))


def test_an_existing_run_is_not_touched(runs, run):
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    refused(command(*runs.arguments(run)), "exists and is not empty", f"selfplay resume {run}")
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def test_a_file_in_place_of_the_run_is_not_touched(runs, tmp_path):
    path = tmp_path / "run"
    path.write_text("mine")
    refused(command(*runs.arguments(path)), f"{path} is a file; choose another --out")
    refused(command(*runs.arguments(path / "below")), str(path))
    assert path.read_text() == "mine"
    said = command(*runs.arguments(tmp_path)).stderr
    assert "exists and is not empty; choose another --out" in said
    assert "resume" not in said


def test_outputs_are_tried_before_the_work(tmp_path):
    file, away = tmp_path / "file", tmp_path / "no" / "out"
    file.touch()
    nothing = tmp_path / "absent"  # the work would say that this is missing
    for out in (away, tmp_path):
        refused(command("tasks", nothing, "--out", out), str(out))
        for name in ("report", "compare"):
            refused(command(name, nothing, "--html", out), str(out))
    out = file / "x"
    for words in (("export", nothing, "s0"), ("sft", "--data", nothing), ("nano", "export")):
        refused(command(*words, "--out", out), str(file))
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_no_run_is_refused(tmp_path):
    out = tmp_path / "tasks.jsonl"
    for words in (("resume",), ("tasks", "--out", out)):
        for place in (tmp_path / "none", tmp_path):
            refused(command(*words, place), "is not a run: it has no config.yaml")
    assert not any(tmp_path.iterdir())


def test_resume_needs_a_checkpoint_and_a_configuration(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    for text, words in (
        ("steps: 3\n", "no checkpoint; nothing is left to continue from"),
        ("", "config.yaml is not a mapping"),
        ("a: [", "config.yaml as YAML"),
        ("stepz: 3", "did you mean steps?"),
        ("chat_date: null", "config.yaml: unknown key chat_date; "),
    ):
        (tmp_path / "config.yaml").write_text(text)
        refused(command("resume", tmp_path), words)
    refused(command("resume", tmp_path), "start another")
    assert (tmp_path / "metrics.jsonl").read_text() == "{}\n"


def test_the_configuration_of_a_run_starts_the_same_run(runs, run, tmp_path):
    home = tmp_path / "again"
    result = command("train", "--preset", run / "config.yaml", "--out", home)
    assert result.exit_code == 0, result.output
    assert runs.outcome(home) == runs.outcome(run)
    # Without --quiet, and without a terminal, there is a line per step.
    lines = [line for line in result.stderr.splitlines() if line.startswith("step ")]
    assert len(lines) == 1
    assert "valid" in lines[0]


def test_tasks_row_by_row_hold_what_the_report_needs(runs, whole):
    rows = runs.rows(whole / "tasks.jsonl")
    assert len(rows) == 4 * 2 * 3 * 2  # steps, teachers, kinds, proposals
    assert len({r["id"] for r in rows}) == len(rows)
    for row in rows:
        tried = sum(a["count"] for a in row["attempts"])
        if row["status"] == "ok":
            assert tried == 3
            right = sum(a["count"] for a in row["attempts"] if a["score"] >= 1)
            assert row["solve_rate"] == right / 3
            assert row["reward"] == (0.0 if right == 0 else 1 - right / 3)
            assert row["metrics"]["ast_depth"] > 0
        else:
            reward = None if row["status"] == "held_out" else -1.0
            assert (row["solve_rate"], row["reward"], tried) == (None, reward, 0)
            assert row["reason"]


def test_metrics_agree_with_the_tasks(runs, whole):
    tasks, structures = runs.rows(whole / "tasks.jsonl"), Counter()
    metrics, steps = runs.rows(whole / "metrics.jsonl"), read_run(whole).steps
    for row, step in zip(metrics, steps, strict=True):
        rows = [r for r in tasks if r["step"] == row["step"]]
        valid = [r for r in rows if r["status"] == "ok"]
        judged = [r for r in rows if r["status"] != "held_out"]
        assert row["valid_share"] == pytest.approx(len(valid) / len(judged))
        assert row["solve_rate"] == pytest.approx(sum(r["solve_rate"] for r in valid) / len(valid))
        assert row["teacher_reward"] == pytest.approx(
            sum(r["reward"] for r in judged) / len(judged)
        )
        assert sum(row["rejected"].values()) == len(rows) - len(valid)
        assert sum(row["solve_rates"]) == len(valid)
        mine = Counter(r["metrics"]["structure"] for r in valid)
        structures += mine
        assert row["coverage"]["structures"] == len(structures)
        assert row["coverage"]["commonest"] == max(mine.values()) / len(valid)
        assert step.flat == sum(r["solve_rate"] in (0.0, 1.0) for r in valid) / len(valid)
        assert len(row["ratings"]) == 4
        assert set(row["ratings"]) == set(row["members"]) or row["evolution"]
        phases = {"match", "propose", "verify", "solve", "update", "save"}
        also = {2: {"evolve", "eval"}, 4: {"eval"}}.get(row["step"], set())
        assert set(row["seconds"]) == phases | also
        # The frozen base's attempts are sampled, and train no member.
        assert 0 < row["tokens"]["trained"] < row["tokens"]["sampled"]


def test_report_prints_a_summary_or_json(run, tmp_path):
    assert "2 teachers and 2 students" in command("report", run).output
    assert json.loads(command("report", run, "--json").stdout)["step"] == 1
    refused(command("report", tmp_path / "none"), "is not a run")
    (tmp_path / "begun").mkdir()
    shutil.copy(run / "config.yaml", tmp_path / "begun")
    refused(command("report", tmp_path / "begun"), "has no finished step yet")


@pytest.mark.parametrize("code", [0, 2])
def test_without_any_stream_the_exit_code_is_the_same(run, tmp_path, code):
    done = run_without("<&- >&- 2>&-", "selfplay", "report", tmp_path if code else run)
    assert done.returncode == code
