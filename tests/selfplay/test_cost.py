"""Hours that a plan says: their arithmetic is that of a real update; they follow the card."""

import json
import math
import re
from dataclasses import replace

import pytest
from torch.utils.flop_counter import FlopCounterMode

from lora_evo.model import Rollout
from selfplay.config import load_preset
from selfplay.learning.batch import TrainingSample
from selfplay.machine.cost import USUAL, measured_hours, planned_hours
from selfplay.machine.devices import CARDS
from selfplay.machine.plan import Rows, Workload, plan_run
from selfplay.members.population import open_learner
from selfplay_command import worked


def hours(preset, card, *assignments, workers=None):
    config = load_preset(preset, *assignments)
    return planned_hours(config, plan_run(config, card, workers))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_arithmetic_of_an_update_is_what_is_counted_in_one(monkeypatch, checkpointing):
    monkeypatch.setitem(CARDS, "H100", (79.1, math.inf, 1.0))  # a FLOP a second
    config = load_preset("nano", "learner.r=1")
    config = replace(config, learner=replace(config.learner, gradient_checkpointing=checkpointing))
    learner, _ = open_learner(config)
    prompt, completion = tuple(range(40)), tuple(range(20))
    rollout = Rollout("s0", prompt, completion, (-6.0,) * 20, "stop")
    samples = [TrainingSample("s0", rollout, (-1.0) ** i, task_id=str(i)) for i in range(8)]
    with FlopCounterMode(display=False) as counter:
        learner.update(samples)
    plan, none = plan_run(config, "H100"), Rows(1, prompt=0, longest_prompt=1, limit=0)
    step = Workload(none, Rows(8, prompt=40, longest_prompt=40, limit=40, samples=8), 1)
    planned = planned_hours(config, replace(plan, step=step))["learning"]
    counted = counter.get_total_flops()
    assert 0.9 < counted / (planned * 3600 / config.steps) < 1.3


@pytest.mark.parametrize(
    ("phase", "rows", "seconds"),
    [
        ("attempts", 256, 13.2),
        ("attempts", 32, 6.19),
        ("attempts", 32, 4.75),
        ("learning", 256, 17.8),
    ],
)
def test_the_range_holds_what_was_measured_of_a_7b_on_an_h100(phase, rows, seconds):
    """Rows of 512 + 512 tokens, each with its own prompt: docs/gpu.md, "What it shows"."""
    config = load_preset("7b-4t4s", f"rollout.max_rows={rows}")
    plan, none = plan_run(config, "H100"), Rows(1, prompt=0, longest_prompt=1, limit=0)
    step = Workload(none, Rows(rows, prompt=512, longest_prompt=512, limit=1024), 8)
    low = planned_hours(config, replace(plan, step=step))[phase] * 3600 / config.steps
    assert low < seconds < low / USUAL


def test_hours_follow_the_card_the_steps_and_the_workers():
    one = hours("7b-4t4s", "H100")
    assert list(one) == ["proposals", "attempts", "learning", "evaluation"]
    twice = hours("7b-4t4s", "H100", "steps=400")
    assert twice["learning"] == pytest.approx(2 * one["learning"])
    slower = hours("7b-4t4s", "A100-80GB")
    assert slower["learning"] / one["learning"] == pytest.approx(989 / 312, rel=0.05)
    assert one["attempts"] < slower["attempts"] < 3.2 * one["attempts"]
    shared = hours("7b-4t4s", "H100", workers=4)
    assert shared["learning"] == pytest.approx(one["learning"] / 4)
    assert hours("7b-4t4s", "H100", "eval.eval_every=0")["evaluation"] == 0
    assert hours("nano", "24") == {}, "no data sheet"


def test_rows_decoded_together_share_the_reading_and_4_bits_are_read_and_written():
    few, many = (hours("7b-24gb", "4090", f"rollout.max_rows={n}") for n in (8, 32))
    assert many["attempts"] < few["attempts"] / 2
    plain = hours("7b-24gb", "4090", "load_in_4bit=false")
    assert 1.2 < hours("7b-24gb", "4090")["attempts"] / plain["attempts"] < 2.5


def test_a_plan_prints_hours_by_phase():
    said = worked("plan", "7b-24gb", "--gpu", "4090")
    (line,) = [line for line in said.splitlines() if line.startswith("time, 200 steps on RTX4090")]
    low, high = map(float, re.search(r": ([\d.]+) to ([\d.]+) hours", line).groups())
    assert high == pytest.approx(low / USUAL, rel=0.01)
    assert "  learning  " in said
    printed = json.loads(worked("plan", "7b-24gb", "--gpu", "4090", "--json"))
    assert sum(printed["hours"].values()) == pytest.approx(low, abs=0.06)


def test_a_doctor_counts_phases_as_often_as_the_run_has_them():
    config = load_preset("nano", "steps=40", "evolution.evolve_every=10")
    found = measured_hours(config, {"load": 3600.0, "solve": 3600.0, "evolve": 3600.0})
    assert found == {"load": 1, "solve": 40, "evolve": 3}
