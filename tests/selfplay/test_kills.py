"""Whatever is killed at whatever moment, a run on workers ends as an undisturbed one.

`make kills` kills fifty times in ten runs; KILLS, RUNS, SEED and TOGETHER, how many runs at a time,
change that.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from processes import gone, living, started
from selfplay.checkpoint import read_checkpoint
from selfplay.files.layout import lock

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("ray"), reason="workers need Ray: pip install ray"),
]
KILLS, RUNS, SEED, TOGETHER = (
    int(os.environ.get(name, default))
    for name, default in (("KILLS", 4), ("RUNS", 1), ("SEED", 1), ("TOGETHER", 1))
)
STEPS = 8
KINDS = ("worker", "raylet", "gcs_server", "driver")
LIMIT_S = 900.0
"""How long anything may take on a busy machine."""
QUICK = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
"""Ray's own processes wait a minute for a lost head."""


@pytest.fixture
def folder():
    """For Ray's sockets, whose paths are short, and all that a run leaves in places like /tmp."""
    made = Path(tempfile.mkdtemp(prefix="kills-"))
    yield made
    shutil.rmtree(made)


def files(runs, home):
    """What equal runs have in common, with the tensors of checkpoints."""
    tensors = (home / "checkpoints").rglob("*.safetensors")
    found = {str(p.relative_to(home)): p.read_bytes() for p in tensors}
    assert found
    assert all(map(read_checkpoint, home.glob("checkpoints/step-*")))
    assert not [path for path in home.rglob(".*") if not path.name.startswith(".nfs")]
    lock(home).close()
    return found | runs.outcome(home)


def steps(home):
    """How many steps a run has recorded."""
    path = home / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def killed(process, home, kind, after, seconds):
    """Kill a process of this kind so long after so many steps, as soon as there is one.

    Returns how many steps were recorded then; None where the run ends before.
    """
    moment, end = None, time.monotonic() + LIMIT_S
    while process.poll() is None:
        if moment is None and steps(home) >= after:
            moment = time.monotonic() + seconds
        victims = [pid for pid, name in living(home).items() if name == kind]
        if victims and moment and time.monotonic() > moment:
            os.kill(max(victims), signal.SIGKILL)
            return steps(home)
        assert time.monotonic() < end, f"no {kind}: {living(home)}"
        time.sleep(0.3)
    return None


def test_a_run_whose_processes_are_killed_at_any_moment_ends_as_its_twin(runs, folder):
    def start(home, *words):
        places = {"TMPDIR": str(folder), "RAY_TMPDIR": str(folder)}
        return started(home, str(home), *words, "--workers", "2", **QUICK, **places)

    def train(home):
        return start(home, *runs.arguments(home, f"steps={STEPS}", "rollout.proposals=4"))

    def disturbed(number):
        """Kill processes of a run, of another one where that ends before; return what, and when."""
        rng, deaths, attempt = random.Random(f"{SEED} {number}"), [], 0
        while len(deaths) < KILLS / RUNS:
            attempt += 1
            home = folder / f"{number}.{attempt}" / "run"
            process, kills, resumed = train(home), [], 0
            while True:
                while len(deaths) + len(kills) < KILLS / RUNS:
                    kind, after = rng.choice(KINDS), rng.randint(0, len(kills) + 1)
                    step = killed(process, home, kind, after, rng.uniform(0.0, seconds / STEPS))
                    if step is None:
                        break
                    kills.append((kind, step))
                if process.wait(LIMIT_S) == 0:
                    break
                resumed += 1
                assert resumed <= len(kills), (home.parent / "said").read_text()
                begun = (home / "config.yaml").exists()
                process = start(home, "resume", home, "--quiet") if begun else train(home)
            assert not gone(home, 60.0)
            assert files(runs, home) == expected, home
            print(home.parent.name, *kills, f"{resumed} resumed by hand", flush=True)
            deaths += kills
        return deaths

    begin, twin = time.monotonic(), folder / "twin" / "run"
    assert train(twin).wait(LIMIT_S) == 0
    seconds, expected = time.monotonic() - begin, files(runs, twin)
    with ThreadPoolExecutor(TOGETHER) as threads:
        deaths = [death for run in threads.map(disturbed, range(RUNS)) for death in run]
    print(Counter(kind for kind, _ in deaths), Counter(step for _, step in deaths))
    assert {path.name.partition(".")[0] for path in folder.iterdir()} == {
        *("ray", "twin"),
        *map(str, range(RUNS)),
    }
