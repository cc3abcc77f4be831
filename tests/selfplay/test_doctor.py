"""The doctor: what it measures and tries, what it finds broken, what it says to change."""

import json

import pytest
import torch

from selfplay import doctor as doctoring
from selfplay import planning, population
from selfplay.config import load_preset
from selfplay.devices import GIB, gpu
from selfplay.doctor import (
    Check,
    Diagnosis,
    Meter,
    faster,
    fullest,
    to_text,
    too_little_memory,
    within_time,
)
from selfplay.learning.batch import batch_rows, micro_batches
from selfplay.learning.learner import Learner
from selfplay.planning import micro_batch, plan_run
from selfplay.population import open_learner
from selfplay_command import command
from separate_engine import SeparateEngine, open_separate

SMALL = (
    *("learner.r=2", "learner.micro_batch_tokens=1024", "sandbox.workers=1"),
    *("rollout.kinds=[code_o]", "rollout.proposals=1", "rollout.num_generations=2"),
)


def doctor(*words, assignments=SMALL):
    flags = [part for a in assignments for part in ("--set", a)]
    return command("doctor", "--base", "nano", *words, *flags)


@pytest.fixture(scope="module")
def found():
    result = doctor("--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_everything_works_with_the_built_in_model(found):
    assert {check["name"] for check in found["checks"] if check["passed"]} == {
        *("probabilities", "swap", "sleep and wake", "memory error")
    }


def test_phases_are_measured_next_to_the_plan(found):
    for phase in ("propose", "solve", "update", "work of a whole step"):
        measured, *planned = found["seconds"][phase]
        assert measured > 0, phase
        assert planned, phase
    assert len(found["seconds"]["load"]) == 1
    for moment in ("sampling", "learning"):
        measured, planned = found["memory"][moment]
        assert 0.1 * GIB < measured < 8 * GIB, moment
        assert planned > 0, moment


def test_rates_are_those_of_what_was_written(found):
    assert found["what"].startswith("nano on ")
    assert found["what"].endswith("; 2 proposals and 4 attempts a step, steps done: 2")
    rates = found["rates"]
    assert rates["tokens written a second"] > 0 < rates["tokens learned a second"]
    assert 0 < rates["fill of completions"] <= 1
    assert 0 < rates["well-formed attempts"] <= 1


def test_the_text_says_all_of_it_and_what_to_do(found):
    checks = [Check(**check) for check in found["checks"]]
    diagnosis = Diagnosis(**found | {"checks": checks, "settings": ["learner.r=4"]})
    text = to_text(diagnosis)
    assert "change: --set learner.r=4" in text
    for word in (*found["seconds"], *found["memory"], *found["rates"], "ok      swap: "):
        assert word in text
    nothing = found["rates"] | {"valid proposals": 0.0, "completions at their limit": 0.6}
    text = to_text(Diagnosis(**found | {"checks": [], "rates": nothing}))
    assert "selfplay sft" in text
    assert "cut by their limit" in text


class Forgetful(SeparateEngine):
    """Takes no version after the first steps."""

    def put_adapter(self, name, version, adapter):
        if version < 3:
            super().put_adapter(name, version, adapter)


def open_forgetful(config):
    learner, engine = open_separate(config)
    engine.__class__ = Forgetful
    return learner, engine


def test_weights_that_do_not_arrive_are_found(monkeypatch):
    monkeypatch.setattr(population, "open_learner", open_forgetful)
    result = doctor()
    assert result.exit_code == 1
    assert "FAILED  swap: t0 in the engine is not the learner's" in result.stdout
    assert "ok      probabilities" in result.stdout


def test_an_engine_that_wakes_as_another_is_found(monkeypatch):
    look = doctoring._sleep

    def with_lost_weights(trial):
        engine = trial.population.engine
        layers = engine.adapters.layers.values()

        def restore():
            with torch.no_grad():
                for layer in layers:
                    layer.lora_B[0].normal_()

        monkeypatch.setattr(engine, "restore", restore)
        return look(trial)

    monkeypatch.setattr(doctoring, "_sleep", with_lost_weights)
    result = doctor()
    assert result.exit_code == 1
    assert "FAILED  sleep and wake: awake again in" in result.stdout


def test_a_learner_that_does_not_survive_a_memory_error_is_found(monkeypatch):
    monkeypatch.setattr(Learner, "_backward_that_fits", Learner.backward)
    result = doctor()
    assert result.exit_code == 1
    assert "FAILED  memory error: on purpose" in result.stdout


@pytest.mark.parametrize("cut", [("learner.micro_batch_members=0",), ()])
def test_the_largest_update_fills_a_micro_batch_and_moves_every_member(cut):
    config = load_preset("nano", *SMALL, *cut, "rollout.proposals=64")
    plan, _ = plan_run(config, None)
    learner, _ = open_learner(config)
    rows = batch_rows(fullest(config, plan), learner.adapters, config.learner)
    assert {row.member for row in rows} == {0, 1, 2, 3}
    for role, part in zip(("propose", "solve"), plan.step.parts, strict=True):
        mine = [row for row in rows if row.sample.role == role]
        assert {row.group for row in mine} == set(range(config.learner.noise_groups))
        last = [row for row in mine if row.group == config.learner.noise_groups - 1]
        budget, width = config.learner.micro_batch_tokens, config.learner.micro_batch_members
        largest = max(len(b) * max(r.length for r in b) for b in micro_batches(last, budget, width))
        assert largest == pytest.approx(micro_batch(part, budget)[0], rel=0.01)


def test_a_step_too_long_for_the_doctor_has_fewer_rows_of_the_same_lengths():
    config = load_preset("nano", "rollout.proposals=4096", "rollout.num_generations=64")
    tried, plan = within_time(config)
    assert sum(plan.seconds[name] for name in ("propose", "solve", "update")) <= 120
    r = tried.rollout
    assert 8 * 6 <= r.proposals * r.num_generations < 4096
    assert r.max_completion_length == config.rollout.max_completion_length
    short = load_preset("nano", *SMALL)
    assert within_time(short)[0].rollout.proposals == short.rollout.proposals


def test_what_does_not_fit_into_its_time_is_named_with_what_was_measured(monkeypatch):
    monkeypatch.setattr("selfplay.doctor.LIMIT_S", 0.0)
    result = doctor()
    assert result.exit_code == 1
    assert "FAILED  time: stopped after 0 minutes, in load" in result.stdout
    monkeypatch.undo()

    class NoTimeToSolve(Meter):
        def begin(self, name):
            self.begun -= doctoring.LIMIT_S * (name == "solve")
            super().begin(name)

    monkeypatch.setattr("selfplay.doctor.Meter", NoTimeToSolve)
    found = json.loads(doctor("--json").stdout)
    assert list(found["seconds"]) == ["load", "weight_sync", "propose"]
    assert len(found["seconds"]["propose"]) == 3
    assert found["memory"]["propose"][0] > 0
    assert [check["seen"] for check in found["checks"]] == ["stopped after 10 minutes, in solve"]


def test_what_would_be_faster_is_named_where_the_memory_measured_leaves_room(monkeypatch):
    monkeypatch.setattr(planning, "this_machine", lambda device, threads: gpu("H200"))
    config = load_preset("7b-1t1s", "learner.gradient_checkpointing=true")
    plan, _ = plan_run(config, None)
    assert "learner.gradient_checkpointing=false" in faster(config, plan, 1.0)
    assert faster(config, plan, 5.0) == []


def test_on_a_gpu_memory_is_limited_and_freed_again(monkeypatch):
    shares = []
    for name, value in (
        ("max_memory_allocated", 50),
        ("memory_allocated", 20),
        ("memory_reserved", 22),
        ("mem_get_info", (30, 100)),
        ("empty_cache", None),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)
    with pytest.raises(RuntimeError), too_little_memory(gpu=True):
        raise RuntimeError
    assert shares == [0.4, 1.0]
