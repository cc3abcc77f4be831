"""The study of a recipe: its plans, its reward, and its tool on a tiny experiment."""

import json
import math
import shutil
from collections import Counter
from dataclasses import replace

import pytest
import yaml
from studies.collapse.niches import DEPTHS, FAMILIES, depth_of, family_of
from studies.recipe import real_model, study
from studies.recipe.curriculum import EVEN
from studies.recipe.rewards import Novelty

from code_verifier import Task, measure
from selfplay import Attempt, Proposed
from selfplay.experiments.experiment import open_home, open_plan
from selfplay.tasks.held_out import EASY, held_out_tasks


@pytest.mark.parametrize("path", sorted(study.HERE.glob("plan_*.yaml")), ids=lambda path: path.stem)
def test_plans_can_be_read_and_their_arms_found_by_name(path):
    plan = open_plan(str(path))
    assert plan.runs(study.HERE)
    arms = study.arms_of(plan.name)
    assert arms[: len(plan.arms)] == list(plan.arms)
    assert {*arms[len(plan.arms) :]} <= {"clip relative", "regret over share"}


def test_finished_runs_are_kept_once_and_tabled(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    plan = {"name": "tiny", "preset": "studies/collapse/preset.yaml", "seeds": [4]}
    plan |= {"set": {"steps": 2}, "arms": {"regret": {"reward.teacher": "regret"}, "paper": {}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    home = tmp_path / "home"
    runs = open_home(open_plan(str(tmp_path / "plan.yaml")), home).runs(home)
    assert study.keep(home) == 0
    for run in runs:
        shutil.copytree(trained, run.directory)
    assert study.keep(home) == 2
    assert study.keep(home) == 0
    rows = study.kept("tiny")
    assert sorted((row["arm"], row["seed"], row["steps"]) for row in rows) == [
        ("paper", 4, 2),
        ("regret", 4, 2),
    ]
    row = rows[0]
    assert [len(row["base"]), [*row["rates"]], [*row["rates"]["2"]]] == [
        8,
        ["1", "2"],
        ["s0", "s1"],
    ]
    assert set(row["norms"]["25"]) <= {"s0", "s1"}
    assert len(row["wrote"]["25"]) == 5
    assert row["warned"] == []
    text = study.table(rows, ["paper", "regret"])
    assert [line.split(" | ")[0] for line in text.splitlines()[2:]] == [
        "| paper", "| regret", "| regret − paper",
    ]  # fmt: skip


def test_the_curriculum_by_hand_is_even_and_has_no_trap():
    shown = Task("code_o", "def f(x):\n    return z(4071, x)", "1", "2")
    texts = [f"<|program|>def f(x):\n    return a{i}(x)<|input|>{i}" for i in range(3200)]
    proposals = [EVEN.parse_proposal((shown,), text) for text in texts]
    assert proposals == [EVEN.parse_proposal((shown,), text) for text in texts]
    assert EVEN.parse_proposal((shown,), "no program") is None
    classes = Counter((family_of(p.program), depth_of(p.program)) for p in proposals)
    assert set(classes) == {(f, d) for f in FAMILIES for d in DEPTHS}
    assert all(60 < count < 140 for count in classes.values())
    assert {p.input for p in proposals} == set("01234567")


def test_falls_are_of_means_over_evaluations_and_drops_of_single_ones():
    track = [30.0, 36.0, 39.0, 42.0, 33.0, 36.0, 36.0]
    assert study.fall(track) == pytest.approx(39 - 35)
    assert study.drops(track) == 1
    assert math.isnan(study.fall([30.0, 20.0]))
    assert study.drops([40.0, 36.0, 31.0]) == 1


def test_what_a_run_did_not_have_is_no_zero():
    """A student with few evaluations, or no valid task."""
    rates = {"25": {"s0": [0.5] * 8}, "50": {"s0": [0.25] * 8}}
    bins = {"25": [0.5, 0.5, 0.0, 0.5, 1], "50": [0.0, 0.0, 1.0, 0.0, 0]}
    row = {"arm": "a", "seed": 1, "base": [0.25] * 8, "rates": rates, "numbers": {"traps": None}}
    row["wrote"] = bins
    whole = {"traps": 0.5, "families extinct": 2.0}
    other = row | {"seed": 2, "numbers": whole, "wrote": {"25": bins["25"]}}
    names = ("largest fall", "fell > 2, %", "traps, %", "families extinct", "flat, %")
    measures = {name: study.MEASURES[name] for name in names}
    assert study.falls(row) == [0.0]
    rates["50"]["s1"] = [0.5] * 8
    *_, none = study.table([row], ["a"], measures).splitlines()
    *_, some = study.table([row, other], ["a"], measures).splitlines()
    assert none == "| a | 1 | – | – | – | – | – |"
    assert some == "| a | 2 | – | – | 50.0 [0.0, 100.0] | 2.0 [0.0, 8.0] | 50.0 |"


def test_a_founder_starts_at_the_base_and_a_child_at_its_first_evaluation():
    rates = {"25": {"s0": [0.5] * 8}, "50": {"s0": [0.25] * 8, "s2": [0.75] * 8}}
    row = {"base": [0.25] * 8, "rates": rates}
    assert study.tracks(row) == {"s0": [25.0, 50.0, 25.0], "s2": [75.0]}
    assert study.gains(row) == [25.0, 25.0]
    assert study.weakest_family(row) == 25.0


def test_a_structure_earns_less_each_time_and_goes_on_from_its_state():
    task = Task("code_o", "def f(x):\n    return x", "1", "1")
    tries = tuple(Attempt(i, "s0", task, 0, 1.0, score=float(i)) for i in range(2))
    p = Proposed(0, "p", "t0", "s0", "code_o", (), 0, status="ok", task=task, attempts=tries)
    p = replace(p, metrics=measure(task.program))
    first, second = Novelty(), Novelty()
    assert first(replace(p, task=None)) == -1.0
    assert [first(p), first(p)] == [0.5, 0.25]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second(p) == first(p) == 0.5 / 3
    assert second(replace(p, metrics=measure("def f(x):\n    return -x"))) == 0.5


def test_the_real_model_starts_from_tasks_of_eight_families_none_of_them_held_out(tmp_path):
    real_model.write_tasks(tmp_path / "seeds.jsonl")
    seeds = (tmp_path / "seeds.jsonl").read_text()
    assert seeds == (study.HERE / "real_seeds.jsonl").read_text()
    rows = [json.loads(line) for line in seeds.splitlines()]
    families = Counter(real_model.family_of(row["snippet"]) for row in rows)
    assert families == {f: 12 for f in real_model.FAMILIES if f not in real_model.UNSEEN}
    apart = held_out_tasks((EASY,), 96)
    assert not {(r["snippet"], r["input"]) for r in rows} & {(t.program, t.input) for t in apart}
    of_apart = [real_model.family_of(task.program) for task in apart]
    assert of_apart == [f for f in real_model.FAMILIES for _ in range(real_model.OF_FAMILY)]


def test_a_real_models_table_has_the_gain_on_unseen_families():
    shares = {"valid": 0.5, "repeated": 0.25, "flat": 0.75, "families": {"a": 3, "other": 1}}
    row = {
        "arm": "paper",
        "seed": 1,
        "base": [0.0] * 12,
        "rates": {"30": {"s0": [0.1 * (f in real_model.UNSEEN) for f in real_model.FAMILIES]}},
        "wrote": {"30": shares},
    }
    row["rates"] = dict.fromkeys(("10", "20", "30"), row["rates"]["30"])
    *_, line = study.table([row], ["paper"], study.REAL_MEASURES).splitlines()
    assert line == "| paper | 1 | 3.3 | 3.3 | 3.3 | 10.0 | 50.0 | 25.0 | 75.0 | 75.0 |"


def test_warnings_count_the_runs_that_ended_in_traps_apart_from_the_others():
    bins = {"25": [0.9, 0.1, 0, 0, 8], "50": [0.9, 0.6, 0, 0, 1]}
    trapped = {"numbers": {"traps": 0.7}, "wrote": bins, "warned": [41, 42]}
    missed = {"numbers": {"traps": 0.5}, "wrote": bins, "warned": []}
    fine = {"numbers": {"traps": None}, "wrote": {}, "warned": []}
    *_, of_trapped, of_others = study.warnings([trapped, missed, fine]).splitlines()
    assert of_trapped == "| 2 that ended in traps | 1 | 41 | 50, 50 |"
    assert of_others == "| 1 others | 0 |  |  |"


def test_a_warning_of_a_fall_is_right_where_the_student_stays_below():
    tracks = {"back": [30, 40, 30, 40, 40], "down": [40, 40, 40, 30, 30, 30], "new": [50, 30]}
    slowly = [40, 40, 40, 37, 34, 31, 28]
    steps = {"s0": tracks["back"], "s1": tracks["down"], "s2": slowly}
    rates = {
        str(i): {name: [track[i] / 100] * 8 for name, track in steps.items() if i < len(track)}
        for i in range(7)
    }
    *_, of_fallen, of_others = study.warnings_of_falls(
        [{"base": [0.0] * 8, "rates": rates}]
    ).splitlines()
    assert of_fallen == "| 2 that fell by more than 5 points | 1 |"
    assert of_others == "| 1 others | 1 |"
