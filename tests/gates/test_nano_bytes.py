"""A nano run of a fixed seed keeps its recorded bytes.

Digests hold for one build of torch on one kind of processor, so each is recorded under its own
name in nano_bytes.json. Elsewhere the run is compared with one that is killed and resumed. To
record this machine's:

    PYTHONPATH=tests/support python tests/gates/test_nano_bytes.py --record
"""

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from json_lines import read_rows
from processors import machine
from programs import python
from safetensors.torch import load_file
from standing import start

RECORDED = Path(__file__).with_name("nano_bytes.json")
SETTINGS = (
    *("sandbox.workers=1", "rollout.proposals=4", "rollout.num_generations=4"),
    *("evolution.evolve_every=2", "league.grace_matches=1"),
    *("eval.eval_every=2", "eval.tasks=12"),
)
TASK_FIELDS = ("id", "kind", "program", "input", "output", "inputs", "outputs", "status", "reward")
OUTCOME_FIELDS = ("tasks", "valid", "attempts", "solved", "unsolved")


def arguments(out: Path) -> list[object]:
    """The run of the fixed seed."""
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    command = ["train", "--preset", "nano", "--quiet", "--seed", "1", "--steps", "4", *settings]
    return [*command, "--out", out]


def train(out: Path) -> dict[str, str]:
    """Train it; return its digests."""
    python("-m", "selfplay", *arguments(out), OMP_NUM_THREADS="1")
    return digests(out)


def killed_and_resumed(out: Path) -> dict[str, str]:
    """Train it, kill it in its third step, and resume it; return its digests."""
    with start(3, os.environ | {"OMP_NUM_THREADS": "1"}, *arguments(out)) as process:
        process.kill()
    python("-m", "selfplay", "resume", out, "--quiet", OMP_NUM_THREADS="1")
    return digests(out)


def digests(run: Path) -> dict[str, str]:
    """Digests of each adapter, of tasks with attempts, of the evaluation, and of the matches."""
    found = {}
    for path in sorted(run.glob("members/*/*.safetensors")) + sorted(
        run.glob("ancestors/*/*.safetensors")
    ):
        content = hashlib.sha256()
        for name, tensor in sorted(load_file(path).items()):
            content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            content.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
        found[path.parent.relative_to(run).as_posix()] = content.hexdigest()[:16]
    tasks = [
        [row[field] for field in TASK_FIELDS]
        + [[a["answer"], a["score"], a["reward"], a["advantage"]] for a in row["attempts"]]
        for row in read_rows(run / "tasks.jsonl")
    ]
    found["tasks"] = digest(tasks)
    found["evaluation"] = digest(
        [
            [row["step"], row["member"], row["solving"]["solve_rate"], row["solving"]["solved"]]
            for row in read_rows(run / "eval.jsonl")
            if row.get("solving")
        ]
    )
    events = read_rows(run / "league" / "events.jsonl")
    found["matches"] = digest(
        [
            [e["pair"], [e["outcome"][field] for field in OUTCOME_FIELDS]]
            for e in events
            if e["event"] == "match_recorded"
        ]
    )
    return found


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def test_fixed_seed_keeps_its_bytes(tmp_path):
    recorded = json.loads(RECORDED.read_text()).get(machine())
    found = train(tmp_path / "run")
    assert {"members/s0", "members/t0", "tasks", "evaluation", "matches"} < found.keys()
    assert found == (recorded or killed_and_resumed(tmp_path / "killed"))


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        raise SystemExit("type --record")
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        known[machine()] = train(Path(folder) / "run")
    RECORDED.write_text(json.dumps(known, indent=2) + "\n")
