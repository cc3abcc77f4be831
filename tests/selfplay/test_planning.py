"""Plans: sizes equal to what the modules really hold, what fits, and what is said if not."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import accumulate

import pytest
import torch
from click.testing import CliRunner
from torch.profiler import ProfilerActivity, profile
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from lora_evo.model import export_adapter, stack_adapters
from selfplay.cli import main
from selfplay.config import LearnerConfig, read_config
from selfplay.errors import ConfigError
from selfplay.learning.learner import Learner, TrainingSample
from selfplay.planning import (
    GIB,
    Machine,
    Rows,
    Workload,
    activations,
    gpu,
    learner_parts,
    make_plan,
    read_architecture,
    refuse_what_cannot_fit,
    smaller,
    this_machine,
    workload,
)
from selfplay.population import open_learner
from selfplay.settings import override, read_preset

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


def planned(preset, machine, *assignments):
    config = settings(preset, *assignments)
    return make_plan(config, read_architecture(config.base), machine)


def saved(tmp_path, name):
    FAMILIES[name].save_pretrained(tmp_path / name)
    return read_architecture(str(tmp_path / name))


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


@pytest.mark.parametrize("name", FAMILIES)
def test_a_config_alone_gives_what_the_model_has(tmp_path, name):
    found = saved(tmp_path, name)
    model = AutoModelForCausalLM.from_config(FAMILIES[name])
    assert found.parameters == sum(p.numel() for p in model.parameters())
    adapters = stack_adapters(model, ["a"], r=4, lora_alpha=8, seed=0)
    slots = export_adapter(adapters, 0, None).slots.values()
    assert found.adapter_parameters(LearnerConfig(r=4)) == sum(
        slot.A.numel() + slot.B.numel() for slot in slots
    )
    assert [p.name for p in (tmp_path / name).iterdir()] == ["config.json"], "no weights"


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
    adapters_of_layer = 2 * model_shape.adapter_parameters(LearnerConfig(r=4)) / 3
    estimate += adapters_of_layer * (4 if dtype == "float32" else 2)
    assert counts[1] - counts[0] == pytest.approx(estimate, rel=0.05)


def test_parts_of_a_learner_are_what_it_holds():
    config = settings("nano")
    learner, _ = open_learner(config)
    plan = planned("nano", gpu("H100"))
    weights = sum(p.numel() for m in range(4) for p in learner.adapters.parameters_of(m).values())
    assert plan.memory["adapters (float32)"] == 4 * weights
    moments = sum(t.numel() for m in range(4) for t in learner.optimizer.tensors(m).values())
    assert plan.memory["optimiser"] == 4 * moments
    frozen = [p for n, p in learner.model.named_parameters() if ".lora_" not in n]
    assert plan.memory["base (float32)"] == 4 * sum(p.numel() for p in frozen)
    tensors, _ = learner.state_dict()
    assert plan.checkpoint == 4 * sum(t.numel() for t in tensors.values())


def test_a_step_has_the_rows_of_the_configuration():
    step = workload(settings("7b-4t4s"))
    assert (step.proposals.count, step.attempts.count, step.members) == (192, 1536, 8)
    assert (step.proposals.limit, step.attempts.limit) == (4096, 4096)
    single = workload(settings("7b-azr"))
    assert (single.proposals.count, single.members) == (192, 1)


def test_halved_rates_double_the_seconds():
    machine = gpu("H100")
    slow = replace(machine, flops=machine.flops / 2, reads=machine.reads / 2)
    fast_plan, slow_plan = planned("7b-4t4s", machine), planned("7b-4t4s", slow)
    for phase, value in fast_plan.seconds.items():
        assert slow_plan.seconds[phase] == pytest.approx(2 * value)


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


def test_one_of_several_workers_takes_its_members_alone():
    whole, share = (
        json.loads(command("plan", "7b-8t8s", "--gpu", "H100", "--json", *more).stdout)
        for more in ((), ("--workers", "4"))
    )
    assert share["memory"]["optimiser"] * 4 == whole["memory"]["optimiser"]
    assert share["checkpoint"] * 4 == whole["checkpoint"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("nanno",), ("did you mean nano?",)),
        (("nano", "--gpu", "H10"), ("did you mean H100",)),
        (("nano", "--set", "base=a/b"), ("the shape of a/b is not known",)),
        (("nano", "--set", "learner.q=1"), ("learner.q",)),
        (("/no/file.yaml",), ("no preset or file ", "/no/file.yaml")),
    ],
)
def test_plan_refuses_in_one_line(flags, words):
    refused(command("plan", *flags), *words)


@pytest.mark.parametrize("base", ["someone/some-model", "{bad}"])
def test_a_base_whose_shape_is_not_known_is_refused_in_one_line(tmp_path, base):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="is not known: give the folder") as caught:
        read_architecture(base.format(bad=tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_cuda_is_refused_and_auto_is_the_cpu():
    with pytest.raises(ConfigError, match="torch finds no GPU here; name one with --gpu"):
        this_machine("cuda", 0)
    machine = this_machine("auto", 1)
    assert not machine.is_gpu
    assert machine.memory > GIB


def test_changes_make_it_fit_and_the_cheapest_come_first():
    thick = ("learner.noise_groups=4", "learner.gradient_checkpointing=false")
    config = settings("7b-4t4s", *thick, "engine=hf", "rollout.merge_rows=0", "rollout.max_rows=8")
    model, machine = read_architecture(config.base), Machine("tiny", 60 * GIB, 1e12, 1e11, True)
    assert not make_plan(config, model, machine).fits
    changes, plan = smaller(config, model, machine)
    assert changes[0] == "learner.noise_groups=0"
    assert plan.fits
    again = make_plan(
        settings(
            "7b-4t4s", *thick, "engine=hf", "rollout.merge_rows=0", "rollout.max_rows=8", *changes
        ),
        model,
        machine,
    )
    assert again == plan
    assert smaller(config, model, replace(machine, memory=1e12))[0] == []
    changes, plan = smaller(config, model, replace(machine, memory=8 * GIB))
    assert changes
    assert not plan.fits


def test_json_has_every_number():
    result = command("plan", "7b-4t4s", "--gpu", "80", "--json")
    found = json.loads(result.stdout)
    assert found["parameters"] == 7_615_616_512
    assert found["adapter_parameters"] == 80_740_352
    assert found["peak"] == max(found["learning"], found["sampling"])
    assert found["fits"] == (found["peak"] <= 80 * GIB)
    assert bool(found["changes"]) != found["fits"]


def test_train_refuses_what_does_not_fit_even_if_the_estimate_is_too_large(
    runs, tmp_path, monkeypatch
):
    peak = planned("nano", this_machine("cpu", 1)).peak
    machine = Machine("near", 0.9 * peak, 1e12, 1e11, is_gpu=False)
    monkeypatch.setattr("selfplay.planning.this_machine", lambda device, threads: machine)
    refuse_what_cannot_fit(settings("nano"))
    tiny = replace(machine, memory=0.2 * GIB)
    monkeypatch.setattr("selfplay.planning.this_machine", lambda device, threads: tiny)
    arguments = runs.arguments(tmp_path / "run", "steps=1", "rollout.proposals=1")
    refused(command(*arguments), "nano needs about", "does not fit near (0.2 GiB)", "--force")
    assert not (tmp_path / "run").exists()
    done = command(*arguments, "--force")
    assert done.exit_code == 0, done.output


DEEP = LlamaConfig(
    vocab_size=2048,
    hidden_size=128,
    intermediate_size=384,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("chunk", [128, 0], ids=["chunks", "one chunk"])
def test_an_update_takes_what_its_parts_say(tmp_path, checkpointing, chunk):
    DEEP.save_pretrained(tmp_path)
    saving = {"gradient_checkpointing": checkpointing, "logits_chunk_tokens": chunk}
    config = LearnerConfig(r=4, noise_groups=0, micro_batch_tokens=2048, **saving)
    learner = Learner(AutoModelForCausalLM.from_config(DEEP), 0, ["a", "b"], config, seed=0)
    ids = tuple(range(512))
    samples = [
        TrainingSample("ab"[i % 2], ids[:256], ids[256:], (-1.0,) * 256, (-1.0) ** i)
        for i in range(4)
    ]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        learner.update(samples)
    changes = [e.nbytes() for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    rows = Rows(count=4, prompt=256, longest_prompt=256, limit=256)
    step = Workload(rows, rows, members=2)
    parts = learner_parts(read_architecture(str(tmp_path)), config, "float32", step)
    estimate = sum(parts.values()) - parts["optimiser"]  # held before the update begins
    assert estimate == pytest.approx(max(accumulate(changes)), rel=0.08)


@pytest.mark.skipif(sys.platform != "linux", reason="torch aligns to pages on Linux alone")
def test_large_blocks_are_on_pages_once_a_base_is_loaded():
    """What they leave when they are freed can be used again."""
    code = (
        "import torch; import lora_evo.model as b;"
        "b.load_base_model('nano', torch.device('cpu'));"
        "print({torch.empty(3 << 20, dtype=torch.uint8).data_ptr() % 4096 for _ in range(9)})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{0}"
