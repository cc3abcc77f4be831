"""What a report says of sampler and learner."""

import json

import pytest
import yaml

from selfplay.report.page import write_report
from selfplay.report.reading.drift import LIMIT, drift_of
from selfplay.report.reading.run_data import read_run
from selfplay.report.summary import summary_text
from synthetic_run import make_run


def run_with(home, engine, divergences):
    """A run whose student s0 has these divergences, step by step."""
    make_run(home, steps=len(divergences), births=0)
    config = yaml.safe_load((home / "config.yaml").read_text())
    (home / "config.yaml").write_text(yaml.safe_dump(config | {"engine": engine}))
    rows = [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    for row, kl in zip(rows, divergences, strict=True):
        row["members"]["s0"] |= {"mismatch_kl": kl, "importance_sampling_clip_ratio": 0.25}
    (home / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


@pytest.mark.parametrize("engine", ["hf", "vllm"])
def test_a_sampler_that_drifts_is_warned_of_wherever_it_runs(tmp_path, engine):
    home = run_with(tmp_path / "run", engine, [1e-5, 20 * LIMIT, 1e-4])
    drift = drift_of(read_run(home))
    assert (drift.member, drift.step, drift.truncated) == ("s0", 2, 0.25)
    told = "Warning: sampler and learner drift apart: KL divergence 2.0e-02 nats a token (s0, step"
    assert told in summary_text(home)
    write_report([home], tmp_path / "page.html")
    assert told in (tmp_path / "page.html").read_text()


def test_without_drift_only_a_sampler_of_its_own_is_spoken_of(tmp_path):
    served = summary_text(run_with(tmp_path / "vllm", "vllm", [5e-5, 6e-5]))
    assert (
        "Sampler against learner: KL divergence at most 6.0e-05 nats a token (s0, step 2)" in served
    )
    assert "at most 25 % of a member's importance weights truncated" in served
    shared = summary_text(run_with(tmp_path / "hf", "hf", [1e-9, 1e-9]))
    assert "Sampler" not in shared
    assert "drift" not in shared
