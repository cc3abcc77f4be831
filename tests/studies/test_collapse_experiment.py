"""The experiments of the study: its plans, a tiny one from the command line, and its page."""

from pathlib import Path

import pytest
import yaml
from programs import python
from studies.collapse import niches, page

from selfplay import read_run
from selfplay.experiments.experiment import open_plan, planned_runs

COLLAPSE = Path(niches.__file__).parent
TOP = COLLAPSE.parents[1]
ARM = "4T+4S no trap"
SMALL = {
    "steps": 2,
    "save_every": 2,
    "rollout.proposals": 4,
    "rollout.num_generations": 2,
    "rollout.seed_tasks": 8,
    "eval.eval_every": 2,
    "eval.tasks": 32,
    "eval.samples": 1,
    "eval.proposals": 4,
    "eval.attempts": 1,
}


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch):
    """Paths of the plans are those from the top of the checkout."""
    monkeypatch.chdir(TOP)


@pytest.mark.parametrize(("name", "runs"), [("plan", 53), ("plan_long", 35), ("plan_nano", 12)])
def test_plans_can_be_read_and_name_measures_of_the_study(name, runs):
    plan = open_plan(f"studies/collapse/{name}.yaml")
    assert len(planned_runs(plan)) == runs
    named = {measure for claim in plan.findings for measure in claim.measures}
    assert named & {"traps", "duplicates, all teachers"}


def test_what_was_predicted_is_of_arms_of_the_plans():
    predicted = page.predictions()
    for name, plan in (("plan", "collapse"), ("plan_long", "collapse-long")):
        arms = open_plan(f"studies/collapse/{name}.yaml").arms
        assert set(predicted["expected"][plan]) <= set(arms)
    phases = predicted["phases"]
    assert {len(numbers) for numbers in phases["rows"].values()} == {len(phases["columns"])}
    for row, column in phases["arms"].values():
        assert row in phases["rows"]
        assert column in phases["columns"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A tiny experiment of one arm of the plan, made from the command line."""
    home = tmp_path_factory.mktemp("collapse") / "home"
    data = yaml.safe_load((COLLAPSE / "plan.yaml").read_text())
    for key in ("arm_seeds", "contrasts", "findings"):
        del data[key]
    data |= {"seeds": [4], "arms": {ARM: data["arms"][ARM]}}
    seeds = (COLLAPSE / "seeds.jsonl").read_text().splitlines(keepends=True)
    home.with_name("seeds.jsonl").write_text("".join(seeds[::32]))
    data["set"] |= SMALL | {"rollout.seed_file": str(home.with_name("seeds.jsonl"))}
    plan = home.with_name("plan.yaml")
    plan.write_text(yaml.safe_dump(data))
    command = ("-m", "selfplay", "experiment", plan, "--out", home, "--workers", "1")
    python(*command, cwd=TOP, OMP_NUM_THREADS="1")
    return home


def test_an_arm_is_trained_in_the_world_from_the_command_line(home):
    run = read_run(home / "4T+4S-no-trap" / "seed-4")
    assert run.last == 2
    assert [
        kind.partition("#")[0].partition("(")[0] for kind in run.config["rollout"]["kinds"]
    ] == ["studies.collapse.niches:NO_TRAP"]
    tasks = [row for row in run.tasks() if row.status == "ok"]
    assert tasks
    assert not any(" z(" in row.program for row in tasks)
    assert {row.kind for row in tasks} == {"code_o"}


def test_the_page_shows_what_was_predicted_and_found(home, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["page", str(home)])
    page.main()
    said = capsys.readouterr().out
    (line,) = (line for line in said.splitlines() if line.startswith(f"{ARM:24}traps"))
    assert line.split()[-4:] == ["0", "0.0", "[0.0,", "97.5]"]
    for name in ("traps.svg", "predicted.svg"):
        assert (home / name).read_text().startswith("<svg")
    assert not (home / "phases.svg").exists()


def test_every_measure_of_the_study_is_in_the_comparison(home):
    compared = page.comparison(home)
    table = compared["tables"]["Measures of studies.collapse.measures:MEASURES: arms"]
    assert {"traps", "families extinct", "weakest family", "family a"} <= set(table)
    assert table["traps"][ARM]["value"] == 0.0


def test_the_phase_diagram_has_what_its_arms_found():
    found = {"1T+1S": {"traps": 0.793}, "azr": {"traps": 0.98}}
    chart = page.phase_diagram(page.predictions()["phases"], found).to_dict()
    (cells,) = (
        chart["datasets"].values() if "datasets" in chart else [chart["layer"][0]["data"]["values"]]
    )
    texts = {(cell["row"], cell["column"]): cell["text"] for cell in cells}
    assert texts["1T+1S", ".25 .1"] == "100 → 79"
    assert texts["8T+8S", ".25 .1"] == "100"
    assert page.phase_diagram(page.predictions()["phases"], {"other": {}}) is None
