"""The experiments of the study: its plans, a tiny one, and its page."""

from pathlib import Path

import numpy as np
import pytest
from studies.collapse import niches, page
from studies.collapse.measures import MEASURES

from selfplay.experiments.experiment import open_plan
from selfplay.files.intervals import Estimate

COLLAPSE = Path(niches.__file__).parent
ARM = "4T+4S no trap"


def test_what_was_predicted_and_claimed_is_of_arms_and_measures_of_the_plans():
    predicted, runs = page.predictions(), 0
    for path in sorted(COLLAPSE.glob("plan*.yaml")):
        plan = open_plan(str(path))
        runs += len(plan.runs(path))
        assert set(predicted["expected"][plan.name]) <= set(plan.arms)
        for plus, minus, measure, side, _ in predicted["claims"].get(plan.name, []):
            assert {*plus, *minus} <= set(plan.arms)
            assert measure in MEASURES
            assert side in ("above", "below")
    assert runs == 35 + 18 + 35 + 12
    phases = predicted["phases"]
    assert {len(numbers) for numbers in phases["rows"].values()} == {len(phases["columns"])}
    for row, column in phases["arms"].values():
        assert row in phases["rows"]
        assert column in phases["columns"]


def test_the_page_shows_what_was_predicted_and_found(home, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["page", str(home)])
    page.main()
    said = capsys.readouterr().out
    (line,) = (line for line in said.splitlines() if line.startswith(f"{ARM:24}traps"))
    assert line.split()[-4:] == ["0", "0.0", "[0.0,", "97.5]"]
    for name in ("traps.svg", "predicted.svg"):
        assert (home / name).read_text().startswith("<svg")
    assert not (home / "phases.svg").exists()


def test_a_verdict_follows_from_the_interval():
    for side, low, high, seeds, verdict in (
        *(("above", 0.1, 0.2, 5, "shown"), ("below", 0.1, 0.2, 5, "refuted")),
        *(("above", -0.1, 0.2, 5, "undecided"), ("above", 0.1, 0.2, 2, "undecided")),
        ("above", None, None, 3, "undecided"),
    ):
        assert page.verdict(Estimate(0.0, low, high, seeds), side, 0.0) == verdict
    assert page.verdict(None, "above", 0.0) == "undecided"


class Numbered:
    """A run of which one number is known, the same until any step."""

    last = 1

    def __init__(self, number):
        self.number = number

    def until(self, step):
        return self


def test_a_claim_is_on_the_mean_of_arms_minus_that_of_others(monkeypatch):
    monkeypatch.setitem(page.MEASURES, "number", lambda run: np.array([run.number]))
    numbers = {"a": (0.8, 0.6, 0.7), "b": (0.4, 0.5, 0.4), "c": (0.1, 0.2, 0.2), "none": (0,) * 5}
    runs = {arm: dict(enumerate(map(Numbered, of))) for arm, of in numbers.items()}
    said = page.verdicts([[["a", "b"], ["c"], "number", "above", 0.2]], runs)
    # 0.6 - 0.1, 0.55 - 0.2 and 0.55 - 0.2
    half = 100 * 4.303 * np.std([0.5, 0.35, 0.35], ddof=1) / np.sqrt(3)
    assert said == f"a, b − c: number, above 20: 40.0 [{40 - half:.1f}, {40 + half:.1f}]: undecided"
    assert page.combined(runs, ["a"], ["d"], "number") is None
    monkeypatch.setitem(page.MOST, "number", 1.0)
    found = page.combined(runs, ["none"], [], "number")
    assert (found.low, found.high) == (0.0, pytest.approx(0.5218, abs=1e-4)), "0 of five seeds"
