"""A run killed at any change of its directory continues to the same files, as SQLite is tested."""

import pytest
from mortal import changes_until_death

from selfplay.checkpoint import read_checkpoint
from selfplay.files.layout import LOCK, METRICS, RESOURCES
from selfplay.training import resume, train

TINY = (
    *("steps=2", "evolution.evolve_every=1", "rollout.kinds=[code_o]", "rollout.proposals=1"),
    *("rollout.num_generations=2", "rollout.max_completion_length=8", "rollout.seed_tasks=2"),
    *("eval.eval_every=1", "eval.tasks=2", "eval.samples=1"),
)


@pytest.fixture(scope="module")
def whole(runs, tmp_path_factory):
    """The undisturbed run, and how many changes it makes."""
    home = tmp_path_factory.mktemp("whole") / "run"
    made = changes_until_death(lambda: start(runs, home), home, None)
    return files(runs, home), made


def start(runs, home):
    train(runs.config(*TINY), home)


def files(runs, home):
    """All files of a run; of the metrics all but the seconds, of resources nothing repeats."""
    found = {
        str(p.relative_to(home)): p.read_bytes()
        for p in sorted(home.rglob("*"))
        if p.is_file() and p.name not in (METRICS, RESOURCES, LOCK)
    }
    rows = runs.rows(home / METRICS)
    for row in rows:
        row.pop("seconds")
    # Lengths and hashes of those two files are in a checkpoint's state and hashes.
    other = tuple(f'"{word}"'.encode() for word in (METRICS, RESOURCES, "state.json"))
    for name in [n for n in found if n.endswith(("state.json", "hashes.json"))]:
        lines = found[name].splitlines()
        found[name] = b"\n".join(x for x in lines if not x.lstrip().startswith(other))
    return found | {METRICS: rows}


def dies_and_resumes(runs, whole, home, k):
    expected, made = whole
    assert changes_until_death(lambda: start(runs, home), home, k) is None
    if not (home / "config.yaml").exists():
        assert k <= 6, "once its configuration has its name, a run resumes"
        return
    assert all(map(read_checkpoint, home.glob("checkpoints/step-*")))
    assert changes_until_death(lambda: resume(home), home, None) is not None
    assert files(runs, home) == expected, f"killed at change {k} of {made}"


def test_killed_on_the_way(runs, whole, tmp_path):
    dies_and_resumes(runs, whole, tmp_path / "run", round(0.6 * whole[1]))


@pytest.mark.slow
def test_killed_at_every_change(runs, whole, tmp_path):
    for k in range(1, whole[1] + 1):
        dies_and_resumes(runs, whole, tmp_path / f"run-{k}", k)


def test_killed_again_after_it_resumed(runs, whole, tmp_path):
    home = tmp_path / "run"
    expected, made = whole
    assert changes_until_death(lambda: start(runs, home), home, made - 10) is None
    for k in (3, 15):
        assert changes_until_death(lambda: resume(home), home, k) is None
        assert all(map(read_checkpoint, home.glob("checkpoints/step-*")))
    resume(home)
    assert files(runs, home) == expected
