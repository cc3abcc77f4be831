"""`--engine vllm`: training that is killed and resumed, or whose engine dies, and evaluation."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from json_lines import read_rows
from programs import python
from standing import start

from processes import gone, started
from selfplay.doctor import DRIFT_LIMITS, drift
from selfplay_command import outcome

SMALL = (
    *("seed=1", "steps=3", "sandbox.workers=1", "rollout.proposals=2", "rollout.seed_tasks=4"),
    *("rollout.num_generations=2", "rollout.max_proposal_length=64", "rollout.kinds=[code_o]"),
    *("rollout.max_completion_length=48", "rollout.max_rows=64", "learner.r=2"),
    *("learner.lora_alpha=4", "evolution.evolve_every=2", "league.grace_matches=1"),
    *("eval.eval_every=3", "eval.tasks=4", "eval.samples=1"),
    *("eval.proposals=1", "eval.attempts=1", "eval.same_tasks=1"),
)


def train(home, tools):
    flags = [part for a in (*SMALL, *tools.here) for part in ("--set", a)]
    return ["train", "--engine", "vllm", "--quiet", "--out", home, *flags]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tools):
    """The undisturbed run, with vLLM in its own process."""
    home = tmp_path_factory.mktemp("whole") / "run"
    python("-m", "selfplay", *train(home, tools))
    return home


def test_a_killed_run_resumes_to_the_same_bytes(whole, tmp_path, tools):
    killed = tmp_path / "killed"
    with start(3, dict(os.environ), *train(killed, tools)) as started:
        started.kill()
    assert len(read_rows(killed / "metrics.jsonl")) == 2
    python("-m", "selfplay", "resume", killed, "--quiet")
    mine, theirs = outcome(killed), outcome(whole)
    assert mine == theirs if tools.exact else len(mine["metrics"]) == len(theirs["metrics"])
    moved = [m for row in mine["metrics"] for m in row["members"].values() if m.get("tokens")]
    assert max(drift(m) for m in moved) < DRIFT_LIMITS[tools.dtype]
    assert any(m["stepped"] for m in moved)
    assert any(row["evolution"] for row in mine["metrics"])


OWN_PROCESS = """
from lora_evo.model import vllm_engine
from selfplay.cli import main

import_vllm = vllm_engine.import_vllm
vllm_engine.import_vllm = lambda own: import_vllm(True)  # as on a GPU
if __name__ == "__main__":
    main()
"""


def engines_of(session):
    """vLLM's processes of a session; their title is written over their environment."""
    numbers = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"VLLM::EngineCore" in (path / "cmdline").read_bytes():
                numbers += [int(path.name)] * (os.getsid(int(path.name)) == session)
    return numbers


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_whose_vllm_is_killed_goes_back_by_itself_and_ends_as_its_twin(
    whole, tmp_path, tools, seed
):
    """vLLM has a process of its own, and is killed at any moment after the first step."""
    script, killed, deaths = tmp_path / "own.py", tmp_path / "killed", 0
    script.write_text(OWN_PROCESS)
    run = started(killed, "vllm", *train(killed, tools), program=(script,))
    metrics, rng = killed / "metrics.jsonl", Random(seed)
    while run.poll() is None:
        engines = engines_of(run.pid)
        if deaths == 0 and engines and metrics.exists() and metrics.read_bytes().endswith(b"\n"):
            time.sleep(rng.random())
            os.kill(engines[0], signal.SIGKILL)
            deaths += 1
        time.sleep(0.1)
    said = (tmp_path / "said").read_text()
    assert (run.returncode, deaths) == (0, 1), said
    assert re.search(r"vLLM failed to .* \(process \d+ ended .*; the run goes back to", said)
    mine, theirs = outcome(killed), outcome(whole)
    assert mine == theirs if tools.exact else len(mine["metrics"]) == len(theirs["metrics"])
    assert not gone("vllm", 60.0)
    assert not engines_of(run.pid)


def test_evals_gives_the_greedy_answers_of_hf(tmp_path, both, tools):
    from lora_evo import save_adapter

    tools.shake(both.learner, 9)
    for name in ("t0", "s0"):
        save_adapter(both.learner.export(name), tmp_path / name)
    adapters = [part for n in ("t0", "s0") for part in ("--adapter", tmp_path / n)]
    asked = ["--benchmark", "nano_code_o", "--limit", "6", "--dtype", tools.dtype]
    asked += ["--base", *adapters]
    both.served.release()  # evals takes nine tenths of a GPU
    answers = {}
    for engine in ("hf", "vllm"):
        out = tmp_path / engine
        python("-m", "evals", "run", "--model", "nano", "--engine", engine, *asked, "--out", out)
        answers[engine] = {
            str(path.relative_to(out)): path.read_text() for path in out.rglob("samples.jsonl")
        }
    assert len(answers["hf"]) == 3
    assert answers["hf"].keys() == answers["vllm"].keys()
    if tools.exact:
        assert answers["hf"] == answers["vllm"]
