"""Narrow models with the vocabularies and heads of real ones go through a preset of theirs."""

import math
import shutil

import pytest
import torch
from small_models import small_model

from selfplay.config import load_preset
from selfplay.tasks.held_out import DATA
from selfplay.training import resume
from selfplay_command import train_until

SHAPES = [
    # Qwen2.5 and Qwen3 from 7B on
    pytest.param("qwen3", 152064, False, marks=pytest.mark.slow),
    ("llama", 128256, True),  # Llama 3.2
]
SETTINGS = (
    *("device=cpu", "engine=hf", "threads=1", "teachers=1", "students=1", "steps=2"),
    *("save_every=1", "rollout.proposals=2", "rollout.num_generations=2"),
    *("rollout.kinds=[code_o]", "rollout.self_seed=false", "rollout.seed_tasks=1"),
    *("rollout.max_proposal_length=10", "rollout.max_completion_length=10"),
    *("rollout.num_references=1", "evolution.evolve_every=0", "sandbox.workers=1"),
    *("eval.eval_every=0", "eval.same_tasks=0", "learner.r=4", "learner.micro_batch_tokens=1024"),
    # What such a base writes is no task; with a bonus its rows are passed and learned from.
    *("learner.entropy_coef=0.01", "learner.learning_rate=1e-3"),
)


def narrow(base, family, vocabulary, *, tied):
    """Write a tiny base with this vocabulary; return where."""
    model = small_model(
        family, vocab_size=vocabulary, max_position_embeddings=16384, tie_word_embeddings=tied
    )
    model.to(torch.bfloat16).save_pretrained(base)
    for file in (DATA / "nano").glob("*token*"):
        shutil.copy(file, base)
    return base


@pytest.mark.parametrize(("family", "vocabulary", "tied"), SHAPES)
def test_it_learns_resumes_and_samples_what_the_learner_computes(
    runs, tmp_path, family, vocabulary, tied
):
    base, home = narrow(tmp_path / "base", family, vocabulary, tied=tied), tmp_path / "run"
    config = load_preset("7b-4t4s", f"base={base}", *SETTINGS)
    assert (config.dtype, config.template) == ("bfloat16", "azr")
    train_until(2, config, home)
    resume(home)
    rows = runs.rows(home / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        teacher = row["members"]["t0"]
        assert teacher["stepped"]
        assert teacher["logp_difference_max"] < 1e-2  # other sums, in bfloat16
        assert teacher["entropy"] == pytest.approx(math.log(vocabulary), rel=0.1)
