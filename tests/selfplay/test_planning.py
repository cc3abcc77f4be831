"""Plans: sizes are those of real modules and hours those of a real update; what fits a card."""

import json
import math
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import torch
from small_models import small_model
from torch.utils.flop_counter import FlopCounterMode

from code_verifier import Status
from lora_evo.model import (
    Rollout,
    export_adapter,
    load_tokenizer,
    stack_adapters,
)
from selfplay import match, new_run, propose, seed_tasks, solve, training_samples
from selfplay.config import LearnerConfig, load_preset
from selfplay.errors import ConfigError
from selfplay.learning.batch import TrainingSample
from selfplay.machine import cost
from selfplay.machine import plan as plans
from selfplay.machine.architecture import read_architecture
from selfplay.machine.cost import USUAL, measured_hours, planned_hours
from selfplay.machine.devices import CARDS, GIB, Machine, gpu, this_machine
from selfplay.machine.plan import (
    Rows,
    Workload,
    make_plan,
    plan_run,
    refuse_what_cannot_fit,
    workload,
)
from selfplay.members.population import open_learner
from selfplay.settings import shipped
from selfplay_command import command, refused, worked


@pytest.fixture(scope="module", autouse=True)
def _each_shape_is_read_once():
    once = cache(read_architecture)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "read_architecture", once)
        patch.setattr(cost, "read_architecture", once)
        yield


def planned(preset, machine):
    config = load_preset(preset)
    return make_plan(config, read_architecture(config.base), machine)


@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral", "qwen3"])
def test_a_config_alone_gives_what_the_model_has(tmp_path, name):
    model = small_model(name, tie_word_embeddings=name == "qwen2")
    model.config.save_pretrained(tmp_path)
    found = read_architecture(str(tmp_path))
    assert found.parameters == sum(p.numel() for p in model.parameters())
    adapters = stack_adapters(model, ["a"], r=4, lora_alpha=8, seed=0)
    slots = export_adapter(adapters, 0, None).slots.values()
    assert found.adapter_parameters(LearnerConfig(r=4)) == sum(
        slot.A.numel() + slot.B.numel() for slot in slots
    )
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"], "no weights"


def test_parts_of_a_learner_are_what_it_holds():
    config = load_preset("nano")
    learner, _ = open_learner(config)
    plan = planned("nano", gpu("H100"))
    weights = sum(p.numel() for m in range(4) for p in learner.adapters.parameters_of(m).values())
    assert plan.memory["adapters (float32)"] == 4 * weights
    states = [learner.optimizer.states[m] for m in range(4)]
    moments = sum(t.numel() for s in states for t in (*s.exp_avg, *s.exp_avg_sq))
    assert plan.memory["optimiser"] == 4 * moments
    frozen = [p for n, p in learner.model.named_parameters() if ".lora_" not in n]
    assert plan.memory["base (float32)"] == 4 * sum(p.numel() for p in frozen)
    tensors = [t for place in range(4) for t in learner.member_state(place).tensors.values()]
    assert plan.checkpoint == 4 * sum(t.numel() for t in tensors if t.dim())


@pytest.mark.parametrize(
    ("assignments", "given"),
    [
        pytest.param(("teachers=2", "students=3"), False, marks=pytest.mark.slow),
        (("teachers=2", "students=3", "reward.teacher=regret"), False),
        (("mode=azr",), False),
        (("students=3",), True),
        pytest.param(("mode=azr",), True, marks=pytest.mark.slow),
    ],
)
def test_a_step_samples_and_learns_from_the_planned_rows(runs, tmp_path, assignments, given):
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(t.to_row()) + "\n" for t in seed_tasks("nano", 9, 5)))
    more = (*assignments, *[f"rollout.tasks={file}"] * given)
    config = runs.config("eval.eval_every=0", "evolution.evolve_every=0", *more)
    plan = workload(config)
    with new_run(config, tmp_path / "run") as run:
        drafts = list(propose(run, match(run, 1), 1))
        for p in drafts:  # the plan takes all for valid
            p.task, p.status = p.task or run.seed_tasks[0], Status.OK
        solved, replayed = solve(run, drafts, 1)
        samples = training_samples(solved, config, replayed)
    attempts = [a for p in solved for a in p.all_attempts] + replayed
    written = [] if given else [len(drafts)]
    assert [rows.count for rows in plan.sampled] == [*written, len(attempts)]
    learned = Counter(sample.phase for sample in samples)
    assert [rows.count for rows in plan.parts] == list(learned.values())


@pytest.mark.parametrize("preset", sorted(set(shipped("presets")) - {"smol"}))
def test_every_preset_can_be_planned_without_its_weights(preset):
    said = worked("plan", preset, "--gpu", "H100")
    for words in ("base (", "activations", "cache", "while learning", "a checkpoint", "GiB"):
        assert words in said
    assert " fits H100" in said or "does not fit H100" in said


def test_a_gpu_may_be_spelled_as_its_driver_or_a_shop_does_or_be_a_number():
    for card, spellings in (
        ("RTX4090", ("RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090")),
        ("A100-80GB", ("A100 80GB", "a100_80gb")),
        ("a GPU of 24 GiB", ("24", "24 GB", "24GiB", "24.0")),
    ):
        assert {gpu(spelled).name for spelled in spellings} == {card}
    assert gpu("24").memory == 24 * GIB
    for name in ("0", "nan", "inf", "", "RTX 5"):
        with pytest.raises(ConfigError, match="or a number of GiB"):
            gpu(name)


def test_plan_takes_a_base_as_train_does(tmp_path):
    small_model("qwen2").config.save_pretrained(tmp_path)
    load_tokenizer("nano").save_pretrained(tmp_path)
    result = command("plan", "--base", tmp_path, "--gpu", "RTX 4090")
    assert result.exit_code == 0, result.output
    assert "another: --preset NAME" in result.stderr
    assert f"{tmp_path.name}: 21,792 parameters" in result.stdout
    assert "RTX4090" in result.stdout
    assert worked("plan", "--base", "nano", "--gpu", "24") == worked("plan", "--gpu", "24")


def test_plan_refuses_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{")
    no_dtype = "dtype is float32, and on a GPU vLLM serves adapters in bfloat16 or float16 alone"
    for flags, words in (
        (("nanno",), "did you mean nano?"),
        (("nano", "--gpu", "H10"), "did you mean H100"),
        (("nano", "--set", f"base={tmp_path}"), "is not known: its config.json cannot be read ("),
        (("nano", "--set", "engine=vllm", "--gpu", "H100"), f"{no_dtype}; type --set dtype="),
    ):
        refused(command("plan", *flags), words)


def test_without_the_hub_the_file_to_place_is_named_at_once(monkeypatch):
    def fails(url, timeout):
        assert "a/b" in url
        assert url.endswith("/config.json")
        raise OSError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", fails)
    said = "its config.json cannot be read (Name or service not known); put that file"
    refused(command("plan", "nano", "--set", "base=a/b"), "the shape of a/b is not known", said)


def test_training_refuses_float32_with_vllm_on_a_gpu_before_it_loads_the_base(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("selfplay.members.population.require_vllm", lambda: "0.32.0")
    monkeypatch.setattr("selfplay.members.population.load_base_model", None)
    with pytest.raises(ConfigError, match="type --set dtype=bfloat16"):
        open_learner(load_preset("nano", "engine=vllm"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_cuda_is_refused_and_auto_is_the_cpu():
    with pytest.raises(ConfigError, match="torch finds no GPU here; name one with --gpu"):
        this_machine("cuda", 0)
    machine = this_machine("auto", 1)
    assert not machine.is_gpu
    assert machine.memory > GIB


def test_json_has_every_number():
    found = json.loads(worked("plan", "7b-4t4s", "--gpu", "80", "--json"))
    assert (found["parameters"], found["adapter_parameters"]) == (7_615_616_512, 80_740_352)
    assert found["peak"] == max(found["learning"], found["sampling"])
    assert found["fits"] == (found["upper_bound"] <= 80 * GIB)


def test_train_refuses_what_does_not_fit_even_if_the_estimate_is_too_large(
    runs, tmp_path, monkeypatch
):
    peak = planned("nano", this_machine("cpu", 1)).peak
    machine = Machine("near", 0.9 * peak, is_gpu=False)
    monkeypatch.setattr("selfplay.machine.plan.this_machine", lambda device, threads: machine)
    refuse_what_cannot_fit(load_preset("nano"))
    tiny = replace(machine, memory=0.2 * GIB)
    monkeypatch.setattr("selfplay.machine.plan.this_machine", lambda device, threads: tiny)
    small = ("steps=1", "rollout.proposals=1", "eval.eval_every=0")
    arguments = runs.arguments(tmp_path / "run", *small)
    refused(command(*arguments), "nano needs", "does not fit near (0.2 GiB)", "--force")
    assert not (tmp_path / "run").exists()
    worked(*arguments, "--force")


def test_a_worker_has_its_part_of_moments_and_gradients_and_all_of_the_rest():
    config, model = load_preset("7b-8t8s"), read_architecture(load_preset("7b-8t8s").base)
    one, eight = (make_plan(config, model, gpu("H100"), workers) for workers in (1, 8))
    assert eight.memory["gradients"] < one.memory["gradients"] / 3
    same = one.memory.keys() - {"gradients"}
    assert {name: eight.memory[name] for name in same} == {name: one.memory[name] for name in same}
    assert eight.checkpoints == one.checkpoints
    said = worked("plan", "nano", "--gpu", "24", "--workers", "2")
    assert "memory, GiB, of each of 2 workers" in said
    assert "each of 2 workers with nano needs " in said


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
    samples = [TrainingSample("s0", rollout, (-1.0) ** i, task_id=str(i)) for i in range(2)]
    with FlopCounterMode(display=False) as counter:
        learner.update(samples)
    plan, none = plan_run(config, "H100"), Rows(1, prompt=0, longest_prompt=1, limit=0)
    step = Workload(none, Rows(2, prompt=40, longest_prompt=40, limit=40, samples=2), 1)
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


def test_an_agent_is_evaluated_as_one_member_and_learns_from_one_attempt_at_a_task():
    agent, pair = (hours(name, "H100", "rollout.proposals=64") for name in ("7b-azr", "7b-1t1s"))
    assert agent["learning"] < pair["learning"] / 3
    many = hours("7b-4t4s", "H100", "mode=azr", "evolution.evolve_every=0")
    assert many["evaluation"] == pytest.approx(hours("7b-azr", "H100")["evaluation"], rel=0.01)
    assert 11.5 < sum(hours("7b-azr", "H100").values()) < 12.5


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
