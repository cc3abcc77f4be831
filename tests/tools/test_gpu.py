"""The steps for a GPU, at tiny size on a CPU with engine hf: every one runs and writes its rows."""

import json
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools/gpu/run.py"


def command(folder, *words):
    places = (f"--out={folder / 'out'}", f"--work={folder / 'work'}")
    return [sys.executable, str(SCRIPT), "--tiny", "--engine", "hf", *places, *words]


def rows_of(folder):
    return [json.loads(line) for line in (folder / "out/results.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_every_step_passes_and_writes_its_rows(tmp_path):
    done = subprocess.run(
        command(tmp_path, "--dtype", "float32", "--budget", "3600"), capture_output=True, text=True
    )
    rows = rows_of(tmp_path)
    assert done.returncode == 0, [row for row in rows if row.get("code") or "end" in row]
    assert [row for row in rows if row.get("passed") is False] == []
    ends = [row["step"] for row in rows if "wall_s" in row]
    assert ends == [
        *("facts", "agree", "checks", "train", "cost", "profile", "card24", "cost1", "eager")
    ]
    found = {step: [row for row in rows if row["step"] == step] for step in (*ends, "doctor")}
    agree = found["agree"][0]
    assert 0 < 1000 * agree["drawn"]["mean"] < agree["control"]["mean"]
    assert len(found["checks"]) == 11
    assert found["train"][0]["steps"] == 3
    assert any(found["train"][0]["evolved"])
    assert found["doctor"][0]["passed"]
    for step in ("cost", "cost1"):
        *measured, summary, _end = found[step]
        assert [row["what"] for row in measured[:2]] == ["open", "sync all members"]
        assert measured[-1]["what"] == "sync what changed"
        assert summary["all_against_one"] > 0
    least, speed, fresh, kernels, shared, *_ = found["profile"]
    assert min(*least["least_s"], *fresh["fresh_s"], speed["tflops"], shared["tflops"]) > 0
    assert shared["tokens"] < speed["tokens"]
    assert kernels["kernels"][0][1] > 0


def test_a_step_past_its_limit_fails_and_says_so(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    run, setting = (import_module(name) for name in ("run", "setting"))
    given = setting.Setting("hf", "float32", "cpu", True, tmp_path, tmp_path)
    monkeypatch.setitem(run.STEPS, "facts", ("facts", 0.001))
    assert not run.run_all(["facts"], given, 60.0)
    (row,) = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert (row["step"], row["code"], row["end"]) == ("facts", None, [])


def test_what_is_stopped_leaves_no_step_behind(tmp_path):
    with subprocess.Popen(command(tmp_path, "--only", "agree")) as process:
        log = tmp_path / "out/agree.log"
        while not log.exists():
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text():
            time.sleep(0.05)
        (step,) = map(int, children.read_text().split())
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    while Path(f"/proc/{step}").exists():  # until its end has been seen by who took it over
        time.sleep(0.05)
