"""When a child has recovered: planted curves, censoring, and the table of planted trials."""

import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import LoraEvoError
from lora_evo.cli import main
from lora_evo.recovery.journal import Journal, Outcome, read_journal
from lora_evo.recovery.plan import ParentPair, Treatment, Trial, TrialPlan, read_treatment
from lora_evo.recovery.protocol import (
    RecoveryProtocol,
    checks_up_to,
    level,
    moving_average,
    recovery_step,
)
from lora_evo.recovery.summary import quantile, spearman, summarise
from lora_evo.recovery.table import markdown, text_table, to_json

CHECKS = (0, 1, 2, 4, 8, 12, 16, 20)
PROTOCOL = RecoveryProtocol(checks=CHECKS, window=1, holds=3)
curves = st.lists(st.floats(0, 1), min_size=8, max_size=8)
many = settings(max_examples=40, deadline=None)


@pytest.mark.parametrize(
    ("curve", "window", "step"),
    [
        ([1, 1, 1, 1, 1, 1, 1, 1], 1, 0),
        ([0, 0, 1, 1, 1, 0, 0, 0], 1, 2),
        ([0, 1, 1, 0, 1, 1, 1, 0], 1, 8),
        ([0, 0, 0, 0, 0, 1, 1, 1], 1, 12),
        ([0, 0, 0, 0, 0, 0, 1, 1], 1, None),
        ([0, 1, 1, 1, 1, 1, 1, 1], 3, 4),
        ([0, 1, 1, 1, 1, 1, 1], 3, 4),
        ([1, 1], 1, None),
    ],
)
def test_planted_curves(curve: list[float], window: int, step: int | None) -> None:
    protocol = RecoveryProtocol(checks=CHECKS, window=window, holds=3)
    assert recovery_step(curve, 0.9, protocol) == step


@many
@given(curves, st.floats(0, 1), st.floats(0, 1))
def test_a_lower_bar_is_never_reached_later(curve: list[float], one: float, two: float) -> None:
    low, high = sorted((one, two))
    easy, hard = (recovery_step(curve, bar, PROTOCOL) for bar in (low, high))
    assert (math.inf if easy is None else easy) <= (math.inf if hard is None else hard)


@many
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=60), st.floats(0, 0.9))
def test_a_larger_delta_never_raises_the_bar(scores: list[float], delta: float) -> None:
    found = level(scores, PROTOCOL)
    strict = found.bar(RecoveryProtocol(delta=0.0))
    assert found.bar(RecoveryProtocol(delta=delta)) <= strict <= found.mean
    assert min(scores) <= found.mean <= max(scores)


def test_the_interval_shrinks_with_the_root_of_the_items() -> None:
    few, many_items = level([0, 1] * 50, PROTOCOL), level([0, 1] * 800, PROTOCOL)
    assert few.half_width == pytest.approx(1.96 * 0.5 / 10, rel=0.15)
    assert few.half_width / many_items.half_width == pytest.approx(4, rel=0.2)
    assert level([0.3] * 9, PROTOCOL).half_width == 0.0


@many
@given(curves, st.integers(1, 8))
def test_moving_average_is_that_of_the_slice(curve: list[float], window: int) -> None:
    for end, found in enumerate(moving_average(curve, window)):
        part = curve[max(0, end - window + 1) : end + 1]
        assert found == pytest.approx(sum(part) / len(part))


def test_quantiles_count_the_censored_as_later_than_all() -> None:
    assert quantile([4, 0, None, 8], 0.5) == 4
    assert quantile([4, None, None], 0.5) is None
    assert quantile([1] * 9 + [None], 0.9) == 1
    assert quantile([1] * 8 + [None] * 2, 0.9) is None


def test_rank_correlation() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, math.inf]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2, 2], [1, 2, 1, 2]) == pytest.approx(0)
    assert spearman([1, 1], [1, 2]) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"checks": (1, 2)},
        {"checks": (0, 2, 2)},
        {"checks": (0, 1), "holds": 3},
        {"window": 0},
        {"delta": -0.1},
        {"confidence": 1.0},
    ],
)
def test_bad_protocols_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(LoraEvoError):
        RecoveryProtocol(**wrong)


def test_checks_end_at_the_last_step() -> None:
    assert checks_up_to(5) == (0, 1, 2, 4, 5)
    assert checks_up_to(50)[-2:] == (42, 50)
    with pytest.raises(LoraEvoError, match="at least 1"):
        checks_up_to(0)
    with pytest.raises(LoraEvoError, match="finite"):
        level([0.1, math.nan], PROTOCOL)


def test_treatments_are_read_back_from_their_names() -> None:
    for treatment in (
        Treatment("svd_structured", 0.3),
        Treatment("dare", None, {"p": 0.5}),
        Treatment("slot_swap", None, {"level": "layer"}),
    ):
        assert read_treatment(treatment.name) == treatment
    for wrong in ("nothing", "dare q=1", "dare p", "svd_structured strength=much"):
        with pytest.raises(LoraEvoError):
            read_treatment(wrong)


def test_plans_pair_every_treatment_with_its_parents() -> None:
    plan = TrialPlan(
        ("a", "b"),
        (ParentPair("a", "c", "sibling"), ParentPair("a", "b", "far")),
        (Treatment("svd_structured"), Treatment("average")),
        (0, 1),
        together=3,
    )
    cohorts = list(plan.cohorts())
    trials = [trial for cohort in cohorts for trial in cohort]
    assert len(trials) == len({trial.key for trial in trials}) == 2 * (5 + 3)
    assert max(map(len, cohorts)) == 3
    assert all(len({(t.parents[0], t.seed) for t in cohort}) == 1 for cohort in cohorts)
    left = [t for cohort in plan.cohorts([t.key for t in trials[:4]]) for t in cohort]
    assert left == trials[4:]


def planted(path, *, reset: float = 0.0, child: float = 0.8):
    """Three seeds: the parent at 0.8, its reset far below, a child that is back after 4 steps."""
    journal = Journal.open(path, PROTOCOL, {"p": "hash"}, {})
    items = 40

    def row(mean: float) -> tuple[float, ...]:
        ones = round(mean * items)
        return (1.0,) * ones + (0.0,) * (items - ones)

    journal.add_level("p", row(0.8))
    for seed in range(3):
        curves_ = {
            "continued": [0.8] * 7 + [0.9],
            "reset": [reset] * 8,
            "svd_structured": [0.2, 0.2, 0.3, *[child] * 5],
        }
        journal.add(
            [
                Outcome(Trial(Treatment(name), ("p",), "", seed), 0.15, tuple(map(row, curve)))
                for name, curve in curves_.items()
            ]
        )
    return journal


def test_the_table_tells_who_met_the_claim(tmp_path) -> None:
    summary = summarise(planted(tmp_path / "t.jsonl"))
    continued, reset, child = summary.rows
    assert (continued.median, reset.median, child.median) == (0, None, 4)
    assert (reset.censored, child.censored) == (1, 0)
    assert child.passed
    assert not reset.passed
    assert summary.has_power is True
    assert child.median_interval == (4, 4)
    assert child.start == pytest.approx(-0.6)
    assert child.over_continued.mean == pytest.approx(-0.1)
    assert child.over_reset.mean == pytest.approx(0.8)
    assert "NO POWER" not in text_table(summary)
    assert markdown(summary).count("\n| ") == 4
    assert json.loads(to_json(summary))["rows"][2]["passed"] is True


def test_a_test_without_power_says_so(tmp_path) -> None:
    assert "NO POWER" in text_table(summarise(planted(tmp_path / "t.jsonl", reset=0.8)))
    late = summarise(planted(tmp_path / "u.jsonl", child=0.5))
    assert late.rows[2].median is None
    assert "> 20" in markdown(late)
    assert not late.rows[2].passed


def test_the_command_prints_the_table(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    planted(path)
    run = CliRunner().invoke(main, ["recovery", str(path), "--json"])
    assert run.exit_code == 0
    assert json.loads(run.output)["items"] == 40
    assert "svd_structured" in CliRunner().invoke(main, ["recovery", str(path)]).output
    assert "| --- |" in CliRunner().invoke(main, ["recovery", str(path), "--markdown"]).output


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "no\n", '{"format": "x"}\n'])
def test_what_is_no_journal_is_refused_in_one_line(tmp_path, text: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    run = CliRunner().invoke(main, ["recovery", str(path)])
    assert run.exit_code == 2
    assert len(run.stderr.splitlines()) == 1
    with pytest.raises(LoraEvoError):
        read_journal(path)
