"""Presets of real models at full size without a GPU: tensors with shapes and types, no values.

What an update of the learner holds is compared with the plan.
"""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from memory_meter import MemoryMeter
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, Qwen2Config

from lora_evo.model import Rollout, stacked_lora
from selfplay import load_preset
from selfplay.learning.batch import TrainingSample, batch_rows
from selfplay.learning.learner import Learner
from selfplay.learning.statistics import StatsSum
from selfplay.machine.architecture import model_config, read_architecture
from selfplay.machine.devices import gpu
from selfplay.machine.plan import make_plan, micro_batch, workload

PRESETS = ("7b-8t8s", "7b-azr-long", "smol")
"""The others take what these do, of fewer members or without checkpointing."""
TIED = {
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "vocab_size": 151936,
    "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True,
}  # fmt: skip
"""The shape of Qwen2.5-0.5B, for `smol`: a small model with tied tables."""


def without_values(model):
    """Give a model on `meta` tensors of the mode in force; shared ones stay shared."""
    made = {}
    for module in model.modules():
        for table, kind in ((module._parameters, torch.nn.Parameter), (module._buffers, None)):
            for name, old in table.items():
                if old is None:
                    continue
                if id(old) not in made:
                    new = torch.empty(old.shape, dtype=old.dtype)
                    made[id(old)] = kind(new, requires_grad=False) if kind else new
                table[name] = made[id(old)]
    return model


def full_size(preset):
    """The configuration of a preset and the shape of its base, cut to a few layers."""
    config = load_preset(preset)
    shape = Qwen2Config(**TIED) if preset == "smol" else model_config(config.base)
    shape.num_hidden_layers = 4 if preset == "smol" else 2
    shape.layer_types = shape.layer_types[: shape.num_hidden_layers]
    return config, shape


def longest_rows(config):
    """Names of the members, and a full micro-batch of the longest rows that fill it."""
    step, budget = workload(config), config.learner.micro_batch_tokens
    longest = max(step.parts, key=lambda rows: micro_batch(rows, budget))
    names = [f"m{i}" for i in range(step.members)]
    tokens, completed = micro_batch(longest, budget)
    count = -(-tokens // longest.longest)
    prompt, limit = (tokens - completed) // count, completed // count
    return names, [sample(names[i % len(names)], prompt, limit) for i in range(count)]


def sample(name, prompt, completion):
    ids, logprobs = (2,) * completion, (-1.0,) * completion
    return TrainingSample(name, Rollout(name, (1,) * prompt, ids, logprobs, "stop"), 1.0)


@contextmanager
def learning(config, shape, names):
    """A learner without values, and the meter of all that it holds."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape, dtype=getattr(torch, config.dtype)).eval()
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(), MemoryMeter() as meter:
        patch.setattr(stacked_lora, "starting_a", lambda *_: torch.zeros(()))  # there are no values
        learner = Learner(without_values(model), names, config.learner, seed=0)
        yield learner, meter


@pytest.mark.parametrize("name", PRESETS)
def test_an_update_of_every_preset_takes_what_the_plan_says(name, tmp_path):
    config, shape = full_size(name)
    shape.save_pretrained(tmp_path)
    # Without vLLM in the plan: what it keeps is not in this process.
    plan = make_plan(replace(config, engine="hf"), read_architecture(str(tmp_path)), gpu("H100"))
    names, samples = longest_rows(config)
    with learning(config, shape, names) as (learner, meter):
        for m in range(len(names)):  # as after a micro-batch of every member
            for p in learner.adapters.parameters_of(m).values():
                p.grad = torch.empty_like(p)
        rows = batch_rows(samples, learner.members, config.learner)
        with learner.adapters.unchanged():
            learner.backward(rows, {m: StatsSum() for m in range(len(names))})
        learner.optimizer.step(0, 1e-5)
    planned = plan.learning - plan.memory["process and libraries"]
    if config.learner.optimizer_offload:  # here, main memory is metered as well
        planned += 2 * plan.memory["adapters (float32)"]
    assert meter.peak == pytest.approx(planned, rel=0.08)
