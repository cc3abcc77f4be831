"""Plans: sizes equal to what the modules really hold, what fits, and what is said if not."""

import json
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from evals.engine.adapter_exchange import export_adapter
from evals.engine.stacked_lora import TARGET_MODULES, stack_adapters
from selfplay.cli import main
from selfplay.config.preset import read_preset
from selfplay.config.run_config import override, read_config
from selfplay.errors import ConfigError
from selfplay.learning.settings import LearnerConfig
from selfplay.planning.architecture import read_architecture
from selfplay.planning.check import adjusted, reckoner, refuse_what_cannot_fit
from selfplay.planning.learner_memory import activations, learner_parts, output_layer
from selfplay.planning.machine import GIB, Machine, found_machine, gpu_named, gpu_with, main_memory
from selfplay.planning.plan import make_plan
from selfplay.planning.remedies import remedies
from selfplay.planning.workload import workload
from selfplay.population.opening import open_learner

SHAPE = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
FAMILIES = {
    "llama": LlamaConfig(**SHAPE),
    "qwen2": Qwen2Config(**SHAPE),
    "mistral": MistralConfig(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE, head_dim=16),
}


def settings(preset, *assignments):
    data = read_preset(preset)
    for assignment in assignments:
        override(data, assignment)
    return read_config(data)


def planned(preset, machine, *assignments, **more):
    config = settings(preset, *assignments)
    return make_plan(config, read_architecture(config.base), machine, **more)


def saved(tmp_path, name):
    FAMILIES[name].save_pretrained(tmp_path / name)
    return read_architecture(str(tmp_path / name))


# shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "whole", "without_tables", "tables"),
    [
        ("Qwen/Qwen2.5-0.5B", 0.49e9, 0.36e9, 1),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", 1.54e9, 1.31e9, 1),
        ("Qwen/Qwen2.5-Coder-3B", 3.09e9, 2.77e9, 1),
        ("Qwen/Qwen2.5-Coder-7B", 7.61e9, 6.53e9, 2),
        ("Qwen/Qwen2.5-14B", 14.7e9, 13.1e9, 2),
    ],
)
def test_built_in_shapes_have_the_published_sizes(base, whole, without_tables, tables):
    found = read_architecture(base)
    assert found.parameters == pytest.approx(whole, rel=0.01)
    rest = found.parameters - tables * found.vocabulary * found.hidden
    assert rest == pytest.approx(without_tables, rel=0.02)


def test_a_rank_32_adapter_of_a_7b_has_81_million_entries():
    found = read_architecture("Qwen/Qwen2.5-7B").adapter_parameters(32, TARGET_MODULES)
    assert found == 80_740_352


@pytest.mark.parametrize("name", FAMILIES)
def test_a_config_alone_gives_what_the_model_has(tmp_path, name):
    found = saved(tmp_path, name)
    model = AutoModelForCausalLM.from_config(FAMILIES[name])
    assert found.parameters == sum(p.numel() for p in model.parameters())
    adapters = stack_adapters(model, ["a"], r=4, lora_alpha=8, seed=0)
    slots = export_adapter(adapters, 0, None).slots.values()
    assert found.adapter_parameters(4, TARGET_MODULES) == sum(
        slot.A.numel() + slot.B.numel() for slot in slots
    )
    assert [p.name for p in (tmp_path / name).iterdir()] == ["config.json"], "no weights"


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("someone/some-model", "the shape of someone/some-model is not known without a network"),
        ("/no/such/folder", "no folder"),
        ("{bad}", "cannot read .*/config.json"),
    ],
)
def test_a_base_whose_shape_is_not_known_is_told_in_one_line(tmp_path, base, words):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=words) as caught:
        read_architecture(base.format(bad=tmp_path))
    assert "\n" not in str(caught.value)


# memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_are_those_that_a_layer_keeps(tmp_path, name, dtype):
    """Counts the bytes that autograd saves; the difference of two depths leaves one layer."""
    counts = []
    for layers in (1, 2):
        config = type(FAMILIES[name])(**SHAPE | {"num_hidden_layers": layers})
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
        adapters = stack_adapters(model, ["a", "b"], r=4, lora_alpha=8, seed=0)
        own = {p.untyped_storage().data_ptr() for p in model.parameters()}
        kept = {}

        def keep(tensor, own=own, kept=kept):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = (storage.nbytes(), tensor)
            return tensor

        with (
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
            adapters.route([0, 1]),
        ):
            model.model(input_ids=torch.zeros(2, 256, dtype=torch.long), use_cache=False)
        counts.append(sum(size for size, _ in kept.values()))
    learner = LearnerConfig(r=4)
    model_shape = saved(tmp_path, name)
    estimate = activations(model_shape, learner, dtype, 512)
    adapters_of_layer = 2 * model_shape.adapter_parameters(4, TARGET_MODULES) / 3
    estimate += adapters_of_layer * (4 if dtype == "float32" else 2)
    assert counts[1] - counts[0] == pytest.approx(estimate, rel=0.05)


def test_parts_of_a_learner_are_what_it_holds():
    config = settings("nano")
    learner, _ = open_learner(config)
    plan = planned("nano", gpu_named("H100"))
    weights = sum(p.numel() for m in range(4) for p in learner.adapters.parameters_of(m).values())
    assert plan.memory["adapters (float32)"] == 4 * weights
    moments = sum(t.numel() for m in range(4) for t in learner.optimizer.tensors(m).values())
    assert plan.memory["optimiser"] == 4 * moments
    frozen = [p for n, p in learner.model.named_parameters() if ".lora_" not in n]
    assert plan.memory["base (float32)"] == 4 * sum(p.numel() for p in frozen)
    tensors, _ = learner.state_dict()
    assert plan.checkpoint == 4 * sum(t.numel() for t in tensors.values())


def test_saving_settings_make_the_update_smaller():
    model, config = read_architecture("Qwen/Qwen2.5-7B"), settings("7b-4t4s")
    step = workload(config)

    def parts(chunk, checkpointing, offload):
        learner = replace(
            config.learner,
            logits_chunk_tokens=chunk,
            gradient_checkpointing=checkpointing,
            optimizer_offload=offload,
        )
        return learner_parts(model, learner, "bfloat16", step)

    plain, saving = parts(1 << 30, False, False), parts(1024, True, True)
    assert saving["output layer"] < plain["output layer"] / 5
    assert saving["activations"] < plain["activations"] / 5
    assert saving["optimiser"] == 0 < plain["optimiser"]
    assert saving["gradients"] == plain["gradients"]


def test_the_output_layer_in_chunks_does_not_grow_with_the_vocabulary_times_tokens():
    model, learner = read_architecture("Qwen/Qwen2.5-7B"), LearnerConfig()

    def layer(tokens, chunk):
        return output_layer(model, replace(learner, logits_chunk_tokens=chunk), tokens)

    assert layer(16384, 1 << 30) == 4 * layer(4096, 1 << 30)
    grown = layer(16384, 1024) - layer(4096, 1024)
    assert grown < 0.05 * (layer(16384, 1 << 30) - layer(4096, 1 << 30))


# workload and time ------------------------------------------------------------------------------


def test_a_step_has_the_rows_of_the_configuration():
    step = workload(settings("7b-4t4s"))
    assert (step.proposals.count, step.attempts.count, step.members) == (192, 1536, 8)
    assert step.sampled_tokens == 192 * 4096 + 1536 * 4096
    single = workload(settings("7b-azr"))
    assert (single.proposals.count, single.members) == (48, 1)


def test_halved_rates_double_the_seconds():
    machine = gpu_named("h100")
    slow = replace(machine, flops=machine.flops / 2, reads=machine.reads / 2)
    fast_plan, slow_plan = planned("7b-4t4s", machine), planned("7b-4t4s", slow)
    for phase, value in fast_plan.seconds.items():
        assert slow_plan.seconds[phase] == pytest.approx(2 * value)


def test_longer_prompts_need_more():
    machine = gpu_named("H100")
    short, long = (planned("7b-4t4s", machine, prompt_tokens=n) for n in (1000, 6000))
    assert long.sampling >= short.sampling
    assert long.step.proposals.longest_prompt == 6000


# devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["A100-80GB", "a100 80gb", "A10080GB"])
def test_a_gpu_is_found_by_any_spelling(name):
    assert gpu_named(name).name == "A100-80GB"


def test_an_unknown_gpu_gets_the_one_meant():
    with pytest.raises(ConfigError, match="did you mean H100"):
        gpu_named("H10")


def test_a_size_stands_for_a_gpu():
    assert gpu_with(24).memory == 24 * GIB


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_cuda_is_refused_and_auto_is_the_cpu():
    with pytest.raises(ConfigError, match="torch finds no GPU here; name one with --gpu"):
        found_machine("cuda", 0)
    machine = found_machine("auto", 1)
    assert not machine.is_gpu
    assert machine.memory == main_memory() > GIB


# what to change ---------------------------------------------------------------------------------


def tiny(gib):
    return Machine("tiny", gib * GIB, 1e12, 1e11, is_gpu=True)


def test_changes_make_it_fit_and_the_cheapest_come_first():
    thick = ("learner.noise_groups=4", "learner.gradient_checkpointing=false")
    config = settings("7b-4t4s", *thick, "engine=hf", "rollout.merge_rows=0", "rollout.max_rows=8")
    reckon = reckoner(config.base, tiny(60))
    assert not reckon(config).fits
    changes = remedies(config, reckon)
    assert changes[0] == "learner.noise_groups=0"
    assert reckon(adjusted(config, changes)).fits
    assert not reckon(adjusted(config, changes[:-1])).fits, "the last one was needed"


def test_what_fits_needs_no_change():
    config = settings("nano")
    assert remedies(config, reckoner("nano", tiny(4))) == []


def test_changes_that_do_not_suffice_are_still_told():
    config = settings("7b-8t8s")
    reckon = reckoner(config.base, tiny(8))
    changes = remedies(config, reckon)
    assert changes
    assert not reckon(adjusted(config, changes)).fits


# commands ---------------------------------------------------------------------------------------


def command(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def refused(result, *words):
    assert result.exit_code == 2, (result.output, result.exception)
    (line,) = result.stderr.splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize("preset", ["nano", "7b-1t1s", "7b-4t4s", "7b-8t8s", "7b-azr"])
def test_every_preset_can_be_planned_without_its_weights(preset):
    result = command("plan", preset, "--gpu", "H100")
    assert result.exit_code == 0, result.output
    for words in ("base (", "activations", "cache", "seconds a step", "a checkpoint", "GiB"):
        assert words in result.stdout
    assert " fits H100" in result.stdout or "does not fit H100" in result.stdout


def test_json_has_every_number():
    result = command("plan", "7b-4t4s", "--memory-gb", 80, "--json")
    found = json.loads(result.stdout)
    assert found["parameters"] == 7_615_616_512
    assert found["peak"] == max(found["learning"], found["sampling"])
    assert found["fits"] == (found["peak"] <= 80 * GIB)
    assert bool(found["changes"]) != found["fits"]


def test_one_of_several_workers_takes_its_members_alone():
    whole, share = (
        json.loads(command("plan", "7b-8t8s", "--gpu", "H100", "--json", *more).stdout)
        for more in ((), ("--workers", "4"))
    )
    assert share["memory"]["optimiser"] * 4 == whole["memory"]["optimiser"]
    assert share["checkpoint"] * 4 == whole["checkpoint"]


def test_rates_can_be_given():
    result = command("plan", "nano", "--gpu", "L4", "--tflops", 2, "--gb-per-s", 30)
    assert "reckoned with 2 TFLOP/s and 30 GB/s" in result.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("nanno",), ("did you mean nano?",)),
        (("nano", "--gpu", "H10"), ("did you mean H100",)),
        (("nano", "--gpu", "H100", "--memory-gb", "3"), ("two devices",)),
        (("nano", "--set", "base=a/b"), ("a/b is not known without a network",)),
        (("nano", "--set", "learner.q=1"), ("learner.q",)),
        (("nano", "--config", "/no/file.yaml"), ("/no/file.yaml",)),
    ],
)
def test_plan_refuses_in_one_line(flags, words):
    refused(command("plan", *flags), *words)


def test_train_refuses_what_surely_does_not_fit_and_force_tries(runs, tmp_path, monkeypatch):
    small = Machine("tiny", 0.2 * GIB, 1e12, 1e11, is_gpu=False)
    monkeypatch.setattr("selfplay.planning.check.found_machine", lambda device, threads: small)
    home = tmp_path / "run"
    arguments = runs.arguments(home, "steps=1", "rollout.proposals=1")
    refused(command(*arguments), "nano needs about", "does not fit tiny (0.2 GiB)", "--force")
    assert not home.exists()
    done = command(*arguments, "--force")
    assert done.exit_code == 0, done.output


def test_a_plan_that_is_only_a_little_too_large_is_left_to_the_run(monkeypatch):
    config = settings("nano")
    peak = planned("nano", found_machine("cpu", 1)).peak
    machine = Machine("near", 0.9 * peak, 1e12, 1e11, is_gpu=False)
    monkeypatch.setattr("selfplay.planning.check.found_machine", lambda device, threads: machine)
    refuse_what_cannot_fit(config)
    smaller = replace(machine, memory=0.8 * peak)
    monkeypatch.setattr("selfplay.planning.check.found_machine", lambda device, threads: smaller)
    with pytest.raises(ConfigError, match="does not fit near"):
        refuse_what_cannot_fit(config)
