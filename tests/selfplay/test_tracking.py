"""Runs that report to trackers: the real packages write files here, and they are read again."""

import json
import os
import sqlite3
import struct
from importlib.util import find_spec

import pytest

from selfplay.files import trackers
from selfplay.files.rows import EvalRow, StepRow, read_rows
from selfplay.training import resume, train
from selfplay_command import command, refused, train_until


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Trackers write into the test's folder, and send nothing out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    for name in [n for n in os.environ if n.startswith("WANDB_")]:
        monkeypatch.delenv(name)


def tensorboard_series(home):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(home / "tensorboard"))
    events.Reload()
    return {
        name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]
    }


def wandb_records(path):
    """The records of a run file: LevelDB's log format, in blocks of 32 KiB, after 7 bytes."""
    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, sort = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if sort in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def wandb_series(home):
    from wandb.proto import wandb_internal_pb2

    series = {}
    for path in sorted((home / "wandb").glob("offline-run-*/*.wandb")):
        for data in wandb_records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            values = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            for name in [n for n in values if not n.startswith("_")]:
                series.setdefault(name, []).append((record.history.step.num, values[name]))
    return series


def trackio_series(home):
    series = {}
    (path,) = (home.parent / "trackio").glob("*.db")
    with sqlite3.connect(path) as opened:
        rows = opened.execute("select run_name, step, metrics from metrics order by id").fetchall()
    assert len({name for name, *_ in rows}) == 1
    for _, step, text in rows:
        for name, value in json.loads(text).items():
            series.setdefault(name, []).append((step, value))
    return series


READ = {"tensorboard": tensorboard_series, "wandb": wandb_series, "trackio": trackio_series}


@pytest.mark.filterwarnings("ignore")  # of the trackers' own packages
def test_trackers_are_given_every_step_across_an_interruption(runs, tmp_path):
    names = [name for name in READ if find_spec(name)]
    settings = ("steps=4", "save_every=2", "evolution.evolve_every=0", "eval.eval_every=4")
    config, home = runs.config(f"report_to=[{', '.join(names)}]", *settings), tmp_path / "mine"
    train_until(4, config, home, phase="solve")
    resume(home)
    rows = list(read_rows(home / "metrics.jsonl", StepRow))
    rate = config.learner.learning_rate
    fields = {
        "frac_reward_zero_std": [row.frac_reward_zero_std for row in rows],
        "rewards/student/mean": [row.student_reward for row in rows],
        "s0/entropy": [row.members["s0"].entropy for row in rows],
        "ratings/t0/mu": [row.ratings["t0"][0] for row in rows],
        "learning_rate": [rate * config.learner.schedule(row.step, config.steps) for row in rows],
    }
    (base,) = [r for r in read_rows(home / "eval.jsonl", EvalRow) if r.member == "base"]
    for name in names:
        series = READ[name](home)
        for field, values in fields.items():
            expected = [(i, v) for i, v in enumerate(values, 1) if isinstance(v, float)]
            logged = [step for step, _ in series[field]]
            again = [] if name == "tensorboard" else [3]  # was logged, but not in a checkpoint
            assert sorted(logged) == sorted([step for step, _ in expected] + again)
            for step, value in expected:
                assert dict(series[field])[step] == pytest.approx(value, rel=1e-6)
        found = series["held_out/base/solve_rate"]
        assert found == [(0, pytest.approx(base.solving.solve_rate, rel=1e-6))]


def test_a_tracker_that_fails_is_left_out_and_the_run_continues(
    runs, brief, tmp_path, monkeypatch, capsys
):
    logged = []

    def broken(values, step):
        logged.append(step)
        if step == 2:
            raise ConnectionError("the server\nis gone")

    def closed():
        raise AssertionError("what failed is not asked again")

    opened = {
        "wandb": lambda *_: (broken, closed, ""),
        "tensorboard": lambda *_: (lambda *_: None, lambda: 1 / 0, ""),
        "trackio": lambda *_: 1 / 0,
    }
    monkeypatch.setattr(trackers, "OPENERS", opened)
    monkeypatch.setattr(trackers, "find_spec", lambda name: name)
    home = tmp_path / "logged"
    train(runs.config("report_to=[wandb, tensorboard, trackio]"), home)
    assert logged == [0, 1, 2]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "trackio failed and is left out from now on: division by zero",
        "wandb failed and is left out from now on: the server",
        "tensorboard failed and is left out from now on: division by zero",
    ]
    mine, expected = runs.outcome(home), runs.outcome(brief)
    assert {n for n in expected if mine[n] != expected[n]} == {"config.yaml"}


def test_a_tracker_that_is_not_there_is_one_line_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    home = tmp_path / "run"
    done = command("train", "--set", "report_to=[wandb]", "--out", home, "--quiet")
    refused(done, "report_to names wandb, which is not installed; type: ", "-m pip install wandb")
    assert not home.exists()
