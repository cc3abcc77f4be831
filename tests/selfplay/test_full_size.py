"""Presets of real models at full size without a GPU: tensors with shapes and types, no values.

What an update of the learner holds is compared with the plan, and its operations are counted.
"""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
import torch
from memory_meter import MemoryMeter
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, Qwen2Config

from lora_evo.model import Rollout, stacked_lora
from selfplay import load_preset
from selfplay.config import Config
from selfplay.learning.batch import TrainingSample, batch_rows
from selfplay.learning.learner import Learner
from selfplay.learning.statistics import StatsSum
from selfplay.machine.architecture import Architecture, model_config, read_architecture
from selfplay.machine.devices import gpu
from selfplay.machine.plan import MemoryPlan, make_plan, micro_batch, rows_in_budget, workload

PRESETS = {
    "7b-4t4s": (),
    "7b-1t1s": (),
    "7b-8t8s": (),
    "7b-azr": (),
    "7b-azr-long": (),
    "smol": (),
}
TIED = {
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "vocab_size": 151936,
    "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True,
}  # fmt: skip
"""The shape of Qwen2.5-0.5B, for `smol`: a small model with tied tables."""
PRODUCTS = ("mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_")
LAYERS = 4
"""The presets are cut to so many: a layer takes what any other takes."""
WHOLE = "7b-4t4s, all layers"


@dataclass
class Update:
    """What an update on one micro-batch of the longest rows did."""

    config: Config
    plan: MemoryPlan
    model: Architecture
    tokens: int
    logits: int
    """Entries of the largest table of logits."""
    peak: float
    """Bytes."""
    operations: Counter
    """Of one micro-batch by name, without views."""
    results: list
    """Of these: name, number types of what was given, number type and entries of what was made."""


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


def full_size(preset, layers=LAYERS):
    """The configuration of a preset and the shape of its base, cut to so many layers."""
    config = load_preset(preset, *PRESETS[preset])
    shape = Qwen2Config(**TIED) if preset == "smol" else model_config(config.base)
    shape.num_hidden_layers = min(layers, shape.num_hidden_layers)
    shape.layer_types = shape.layer_types[: shape.num_hidden_layers]
    return config, shape


def longest_rows(config):
    """Names of the members, and a full micro-batch of the longest rows that fill it."""
    step, budget = workload(config), config.learner.micro_batch_tokens
    longest = max(step.parts, key=lambda rows: micro_batch(rows, budget))
    names = [f"m{i}" for i in range(step.members)]
    count, prompt, limit = rows_in_budget(longest, budget)
    samples = [sample(names[i % len(names)], prompt, limit) for i in range(count)]
    return names, samples, (count * (prompt + limit), count * limit)


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
        learner = Learner(without_values(model), 0, names, config.learner, seed=0)
        yield learner, meter


@pytest.fixture(scope="module", params=[*PRESETS, pytest.param(WHOLE, marks=pytest.mark.slow)])
def update(request, tmp_path_factory):
    preset = request.param.partition(",")[0]
    config, shape = full_size(preset, 99 if request.param == WHOLE else LAYERS)
    folder = tmp_path_factory.mktemp(preset)
    shape.save_pretrained(folder)
    architecture = read_architecture(str(folder))
    # Without vLLM in the plan: what it keeps is not in this process.
    plan = make_plan(replace(config, engine="hf"), architecture, gpu("H100"))
    names, samples, (tokens, answered) = longest_rows(config)
    with learning(config, shape, names) as (learner, meter):
        for m in range(len(names)):  # as after a micro-batch of every member
            for p in learner.adapters.parameters_of(m).values():
                p.grad = torch.empty_like(p)
        rows = batch_rows(samples, learner.members, config.learner)
        sums = {m: StatsSum() for m in range(len(names))}
        with learner.adapters.unchanged():
            learner.backward(rows, sums)
            meter.operations.clear()  # from here on, what every further micro-batch takes
            meter.results.clear()
            learner.backward(rows, sums)
            operations, results = Counter(meter.operations), list(meter.results)
        learner.optimizer.step(0)
    logits = min(answered, learner.scorer.output.chunk) * architecture.vocabulary
    return Update(config, plan, architecture, tokens, logits, meter.peak, operations, results)


def test_an_update_of_every_preset_takes_what_the_plan_says(update):
    planned = update.plan.learning - update.plan.memory["process and libraries"]
    if update.config.learner.optimizer_offload:  # here, main memory is metered as well
        planned += 2 * update.plan.memory["adapters (float32)"]
    assert update.peak == pytest.approx(planned, rel=0.08)


def test_attention_is_computed_once_in_each_direction(update):
    attention = {n: k for n, k in update.operations.items() if n.startswith("_scaled_dot_product")}
    assert len(attention) == 2
    assert set(attention.values()) == {update.model.layers}


def test_only_norms_and_a_chunk_of_logits_are_float32(update):
    """And rotary angles; all products of matrices are in the base's number type."""
    wide = [(*given, made, n) for name, given, made, n in update.results if name in PRODUCTS]
    least = update.tokens * update.config.learner.r
    assert {kind for *kinds, n in wide if n >= least for kind in kinds} == {
        getattr(torch, update.config.dtype)
    }
    if update.config.dtype == "bfloat16":
        exact = max(n for _, _, made, n in update.results if made == torch.float32)
        assert exact <= max(update.logits, update.tokens * update.model.hidden)


def test_a_micro_batch_takes_few_operations_a_layer(update):
    """Each is a kernel to launch; with adapters cast for every pass they were 410 a layer."""
    chunks = -(-update.tokens * update.model.vocabulary // update.logits)
    assert sum(update.operations.values()) < 230 * update.model.layers + 500 + 25 * chunks


def test_unequal_shares_of_a_batch_take_about_as_many_operations_as_equal_ones():
    """Whoever has how many rows, each layer multiplies them by their adapters at once."""
    config, shape = full_size("7b-4t4s", 2)
    names, taken = longest_rows(config)[0], []
    for who in ((0, 1, 2, 3, 4, 5), (0, 0, 1, 4, 4, 7)):
        samples = [sample(names[m], 424, 600) for m in who]
        with learning(config, shape, names) as (learner, meter):
            rows = batch_rows(samples, learner.members, config.learner)
            sums = {m: StatsSum() for m in range(len(names))}
            with learner.adapters.unchanged():
                learner.backward(rows, sums)
                meter.operations.clear()
                learner.backward(rows, sums)
            taken.append(sum(meter.operations.values()))
    assert taken[1] < 1.25 * taken[0]


def peak(config, shape, names, samples):
    with learning(config, shape, names) as (learner, meter):
        learner.update(samples)
    return meter.peak


def test_checkpointing_keeps_one_layer_at_a_time_at_full_size():
    """Without it, each further layer adds all its activations; with it, what enters the layer."""
    growth = {}
    for saving in (False, True):
        taken = []
        for layers in (1, 2):
            config, shape = full_size("7b-4t4s", layers)
            names, samples, _ = longest_rows(config)
            config = replace(config, learner=replace(config.learner, gradient_checkpointing=saving))
            taken.append(peak(config, shape, names, samples))
        growth[saving] = taken[1] - taken[0]
    assert growth[True] < 0.5 * growth[False]


@pytest.mark.parametrize(("rows", "smaller"), [(6, True), (1, False)])
def test_what_does_not_fit_at_full_size_is_done_again_with_less(rows, smaller):
    """In smaller micro-batches; where a row is alone, with its layers checkpointed."""
    config, shape = full_size("7b-4t4s", 2)
    names, budget = longest_rows(config)[0], config.learner.micro_batch_tokens
    prompt = limit = budget // rows // 2
    samples = [sample(names[i], prompt, limit) for i in range(rows)]
    free = peak(config, shape, names, samples)
    with learning(config, shape, names) as (learner, meter):
        meter.limit = meter.live + 0.75 * (free - meter.live)
        with pytest.warns(UserWarning, match="out of memory in an update"):
            learner.update(samples)
        assert meter.ran_out
        assert (learner.micro_batch_tokens < budget) == smaller
        assert (learner.scorer.checkpoint_from_tokens == prompt + limit - 1) != smaller
