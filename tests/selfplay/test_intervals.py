"""Intervals of `compare` and the studies: their values, and how often they hold a known truth.

`pytest -m slow -s tests/selfplay/test_intervals.py` prints the lines of the table in
docs/experiments.md.
"""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

from code_verifier import Task
from selfplay.config import load_preset
from selfplay.evaluate import solving_row
from selfplay.experiments.comparison import of_arm
from selfplay.files.intervals import Estimate, estimate, gain_text, mean_and_error, student_t
from selfplay.files.record import RunRecord
from selfplay.files.rows import EvalRow, StepRow
from selfplay.reports.findings import conclusion
from selfplay.reports.progress import Progress
from selfplay.reports.run_page import tables
from selfplay.sampling.texts import Attempt

TASK = Task("code_o", "def f(a):\n    return a", "1", "1")


def test_the_mean_is_over_seeds_and_missing_tasks_are_left_out():
    found = estimate([np.array([0.0, 1.0, np.nan]), np.array([0.1]), np.array([np.nan])])
    assert (found.value, found.seeds) == (pytest.approx(0.3), 2)
    assert estimate([np.array([np.nan])]) is None
    assert estimate([]) is None
    assert estimate([np.array([2.0])]) == Estimate(2.0, None, None, 1)
    assert estimate([np.array([3.0])] * 4) == Estimate(3.0, None, None, 4)


def test_the_interval_is_students_over_seeds_or_over_the_tasks_of_one():
    found = estimate([np.array([seed]) for seed in (1.0, 2.0, 3.0, 4.0, 6.0)])
    half = 2.776 * np.std([1, 2, 3, 4, 6], ddof=1) / np.sqrt(5)
    assert (found.low, found.high) == pytest.approx((3.2 - half, 3.2 + half))
    alone = estimate([np.array([1.0, 2.0, 3.0, 4.0, 6.0])])
    assert (alone.value, alone.low, alone.seeds) == (3.2, pytest.approx(3.2 - half), 1)
    assert student_t(4) == 2.776
    assert student_t(30) == pytest.approx(2.042, abs=4e-3)


def test_tasks_of_one_family_count_as_one():
    alone = mean_and_error([0.0, 1.0, 0.0, 1.0])
    assert alone == mean_and_error([0.0, 1.0, np.nan, 0.0, 1.0]) == (0.5, pytest.approx(12**-0.5))
    together = mean_and_error([0.0, 0.0, 1.0, 1.0, np.nan], "aabbc")
    assert together == (0.5, 0.5) == mean_and_error([0.0, 1.0])
    assert mean_and_error([0.0, 1.0], "aa") is None
    found = estimate([np.array([0.0, 0.0, 1.0, 1.0, np.nan])], "aabbc")
    assert found.high - found.value == pytest.approx(student_t(1) * 0.5)


def test_one_number_has_one_error_wherever_it_is_printed():
    families, rates = (0, 0, 0, 1, 1, 2), {"base": (0, 0, 0, 1, 0, 1), "s0": (1, 1, 1, 1, 0, 0)}
    attempts = {
        name: [[Attempt(name, TASK, 0, 1.0, score=float(score))] for score in scores]
        for name, scores in rates.items()
    }
    base, student = (
        solving_row(["code_o"] * 6, attempts[name], rates["base"], families=families)
        for name in rates
    )
    rows = (
        EvalRow(member="base", role="base", solving=replace(base, families=families)),
        EvalRow(step=1, member="s0", role="student", solving=student),
    )
    run, said = RunRecord(Path("run"), {}, (StepRow(step=1),), rows), StringIO()
    progress = Progress(Console(file=said, width=300))
    with progress.showing(load_preset("nano", steps=1), run.directory, 0, (), rows[:1]):
        progress.step(run.steps[0], rows[1:])
    error = student.standard_error
    assert error > mean_and_error([a - b for a, b in zip(*rates.values(), strict=True)])[1]
    gain = gain_text(student.difference, error)
    assert f"points above the base: {gain} held-out (step 1)" in said.getvalue()
    assert f"s0 67% ({gain})" in said.getvalue()
    assert f"({gain} points" in conclusion(run)
    assert f"{gain} points" in repr(run)
    assert tables(run)["solving"][1][1][2] == gain
    found = of_arm({1: run})["gain, population mean, at the end"]
    assert found.high - found.value == pytest.approx(student_t(2) * error)


def held(name, hits, least=0.92):
    print(f"| {name} | {100 * np.mean(hits):.1f} |")
    assert np.mean(hits) >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "between", "tasks"), [(3, 1, 1), (5, 1, 1), (8, 1, 1), (5, 0.3, 20)]
)
def test_a_mean_is_in_its_interval(seeds, between, tasks):
    rng, hits = np.random.default_rng([seeds, tasks]), []
    for _ in range(1000):
        made = [rng.normal(rng.normal(0, between), 0.5 * (tasks > 1), tasks) for _ in range(seeds)]
        found = estimate(made)
        hits.append(found.low <= 0.0 <= found.high)
    held(f"mean, {seeds} seeds, {tasks} numbers each", hits)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "least"), [(3, 0.85), (5, 0.8)])
def test_a_mean_is_missed_more_often_where_some_runs_fall(seeds, least):
    """Runs differ by 2.5 points, and one in five ends 15 points lower."""
    rng, hits = np.random.default_rng(seeds), []
    for _ in range(20_000):
        gains = rng.normal(0.0, 2.5, seeds) - 15.0 * (rng.random(seeds) < 0.2)
        found = estimate([np.array([gain]) for gain in gains])
        hits.append(found.low <= -3.0 <= found.high)
    held(f"mean, {seeds} seeds, one in five falls", hits, least)
