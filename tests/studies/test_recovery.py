"""The study of children's recovery: who counts, when one is back, and the table of a tiny run."""

import math
from dataclasses import replace

import numpy as np
import pytest
from studies.recovery.recovery import Child, children_of, gap, main, recovered, time_to_recovery

from selfplay import read_run, train
from selfplay.experiments.experiment import open_home, open_plan

TINY = (
    *("steps=3", "seeds=[1]", "students=2", "league.grace_matches=0", "sandbox.workers=1"),
    *("evolution.evolve_every=2", "evolution.replaced_fraction=0.5", "eval.eval_every=3"),
    *("eval.tasks=6", "eval.samples=1", "rollout.kinds=[code_o]", "rollout.proposals=1"),
    *("rollout.num_generations=2", "rollout.max_proposal_length=28"),
    "rollout.max_completion_length=8",
)


def test_a_gap_is_paired_by_task_and_has_a_width_where_nobody_differs():
    rng = np.random.default_rng(0)
    parent, child = rng.random(240), rng.random(240)
    mean, low, high = gap(parent, child)
    assert mean == pytest.approx(np.mean(parent - child))
    error = np.std(parent - child) / math.sqrt(240)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.05)
    _, low, high = gap(parent, parent)
    assert (low, high) == pytest.approx((-1.96 / 241, 1.96 / 241), rel=1e-3)
    assert gap(np.array([0.5, np.nan]), np.array([0.25, 1.0]))[0] == 0.25


def test_a_child_is_back_when_it_is_known_to_be_less_than_two_points_behind():
    later = {5: (0.03, 0.01, 0.05), 10: (0.01, -0.01, 0.03), 15: (-0.01, -0.03, 0.01)}
    assert time_to_recovery(later) == (15, True)
    assert time_to_recovery({5: later[5], 10: later[10]}) == (10, False)
    assert time_to_recovery({}) == (0, False)
    assert Child("r", (0.03, 0.01, 0.05), {}, {}).is_behind
    assert not Child("r", (0.03, -0.01, 0.07), {}, {}).is_behind


def test_children_that_are_lost_from_sight_count_for_as_long_as_they_were_seen():
    times = [(5, True), (5, False), (10, True), (20, False)]
    # Three of four are left after 5, and one of two after 10: one was not seen any more.
    assert recovered(times, 10)[0] == pytest.approx(1 - 3 / 4 * 1 / 2)
    assert recovered([(10, True)] * 3, 10)[:2] == (1.0, pytest.approx(0.292, abs=1e-3))
    assert recovered([(20, False)] * 3, 10) == (0.0, 0.0, pytest.approx(0.708, abs=1e-3))
    assert recovered([(5, False)], 10) is None
    assert recovered([], 10) is None


@pytest.mark.slow
def test_the_share_that_recovers_is_in_its_interval_as_often_as_it_says():
    rng = np.random.default_rng(3)
    for chance in (0.05, 0.2, 0.5):  # at each of four looks; one in five is lost before each
        true, hits, tries = 1 - (1 - chance) ** 4, 0, 0
        for _ in range(2000):
            times = []
            for _ in range(10):
                back, lost = rng.random(4) < chance, rng.random(4) < 0.2
                end = next((i for i in range(4) if lost[i] or back[i]), 3)
                times.append((5 * (end + (not lost[end])), bool(back[end] and not lost[end])))
            if (found := recovered(times, 20)) is not None:
                hits, tries = hits + (found[1] <= true <= found[2]), tries + 1
        print(f"recovered, ten children, {chance} a look: {100 * hits / tries:.1f} %")
        assert hits / tries >= 0.93


def test_children_are_measured_at_birth_and_tabled(tmp_path, monkeypatch, capsys):
    plan = open_plan("studies/recovery/plan.yaml", TINY)
    copies = {"copies": plan.arms["copies"]}
    (planned,) = open_home(replace(plan, arms=copies), tmp_path).runs(tmp_path)
    train(planned.config, planned.directory)
    run = read_run(tmp_path / "copies" / "seed-1")
    assert sorted({row.step for row in run.evals}) == [0, 2, 3], "births are measured"
    (child,) = children_of(run)
    assert child.birth[0] == 0.0, "a copy answers as its parent does"
    assert list(child.later) == list(child.untrained) == [1]
    monkeypatch.setattr("sys.argv", ["recovery", str(tmp_path)])
    main()
    assert "| copies | 1 | 0.0 | 0 of 1 [0, 97] |" in capsys.readouterr().out
