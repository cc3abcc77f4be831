"""A Qwen2 of two layers with random weights, and PEFT twins of stacked members as the oracle.

The fixtures `tiny` and `runs` carry the helpers: test folders are no packages and cannot import
each other. `runs` makes small but complete runs on the built-in model.
"""

import copy
import json
from random import Random
from types import SimpleNamespace

import peft
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from selfplay.model.sampling import stream
from selfplay.model.stacked_lora import TARGET_MODULES, stack_adapters
from selfplay.nano.labels import label, labelling_sandbox
from selfplay.nano.programs import LEVELS, random_program
from selfplay.run.config import override, read_config
from selfplay.run.preset import read_preset
from selfplay.step.loop import train
from selfplay.step.progress import Progress

MEMBERS = ("t0", "t1", "s0")
R, ALPHA = 4, 8.0
VOCABULARY = 96


def numbers(seed, *shape):
    return torch.from_numpy(stream(seed).standard_normal(shape)).float()


def tiny_qwen():
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        model = Qwen2ForCausalLM(config).eval()
    for i, (_, p) in enumerate(sorted(model.named_parameters())):
        if p.ndim > 1:
            p.data.copy_(numbers(i, *p.shape) * (0.5 if p.shape[0] == VOCABULARY else 0.15))
        elif i % 2:
            p.data.add_(numbers(i, *p.shape) * 0.1)
    return model


@torch.no_grad()
def shake(adapters):
    """Give every member a B of its own, so that members differ from the base and each other."""
    for member in range(len(adapters.members)):
        for i, p in enumerate(adapters.parameters_of(member).values()):
            if i % 2:
                p.copy_(numbers(1000 * (member + 1) + i, *p.shape) * 0.1)


def peft_twin(base, adapters):
    """A PEFT model on a copy of `base` with adapters equal to the stacked members."""
    config = peft.LoraConfig(
        r=adapters.r, lora_alpha=adapters.lora_alpha, target_modules=list(TARGET_MODULES)
    )
    with torch.random.fork_rng():
        twin = peft.get_peft_model(copy.deepcopy(base), config, adapter_name=adapters.members[0])
        for name in adapters.members[1:]:
            twin.add_adapter(name, config)
    for index, member in enumerate(adapters.members):
        for name, p in adapters.parameters_of(index).items():
            peft_parameter(twin, member, name).data.copy_(p.data)
    return twin.eval()


def peft_parameter(twin, member, name):
    path, _, kind = name.rpartition(".")
    module = twin.get_submodule(f"base_model.model.{path}")
    return getattr(module, kind)[member].weight


def stacked(members=MEMBERS):
    """A base model, and a stack of shaken members on a copy of it."""
    base = tiny_qwen()
    adapters = stack_adapters(copy.deepcopy(base), members, r=R, lora_alpha=ALPHA, seed=7)
    shake(adapters)
    return base, adapters


@pytest.fixture(scope="session")
def tiny():
    return SimpleNamespace(
        qwen=tiny_qwen,
        stacked=stacked,
        shake=shake,
        peft_twin=peft_twin,
        peft_parameter=peft_parameter,
        numbers=numbers,
        members=MEMBERS,
        r=R,
        alpha=ALPHA,
        vocabulary=VOCABULARY,
    )


SMALL = (
    *("seed=1", "steps=4", "sandbox.workers=1"),
    *("rollout.proposals=2", "rollout.num_generations=3", "rollout.seed_tasks=4"),
    *("rollout.max_proposal_length=64", "rollout.max_completion_length=48"),
    *("learner.r=2", "learner.lora_alpha=4", "learner.target_modules=[q_proj, v_proj]"),
    *("evolution.evolve_every=2", "league.grace_matches=1"),
    *("yardstick.eval_every=2", "yardstick.tasks=6", "yardstick.samples=2"),
    *("yardstick.proposals=1", "yardstick.attempts=2", "yardstick.same_tasks=1"),
)


def small_config(*assignments):
    """The nano preset cut down to seconds, and any `a.b=value` on top."""
    data = read_preset("nano")
    for assignment in (*SMALL, *assignments):
        override(data, assignment)
    return read_config(data)


def small_run(directory, *assignments):
    """Train a small run through, and return its directory."""
    train(small_config(*assignments), directory, Progress(quiet=True))
    return directory


def small_arguments(directory, *assignments):
    """The same run as arguments of the command."""
    flags = [part for a in (*SMALL, *assignments) for part in ("--set", a)]
    return ["train", "--out", str(directory), "--quiet", *flags]


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def outcome(run):
    """Everything that equal runs have in common: bytes by file, metrics without their seconds."""
    named = [
        *(run / name for name in ("config.yaml", "tasks.jsonl", "yardstick.jsonl")),
        run / "league" / "events.jsonl",
        *(p for name in ("members", "ancestors") for p in (run / name).rglob("*")),
    ]
    found = {str(p.relative_to(run)): p.read_bytes() for p in sorted(named) if p.is_file()}
    measured = rows(run / "metrics.jsonl")
    for row in measured:
        row.pop("seconds")
        row.pop("memory_mb", None)
    return found | {"metrics": measured}


@pytest.fixture(scope="session")
def runs():
    return SimpleNamespace(
        config=small_config,
        train=small_run,
        arguments=small_arguments,
        rows=rows,
        outcome=outcome,
    )


@pytest.fixture(scope="module")
def labelling():
    with labelling_sandbox() as opened:
        yield opened


@pytest.fixture(scope="module")
def labelled(labelling):
    """Sixty programs of each level of the nano language, those that can be used."""
    rng = Random("language")
    return list(label([random_program(rng, lv) for lv in LEVELS for _ in range(60)], labelling))
