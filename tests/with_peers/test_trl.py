"""TRL's GRPOTrainer learns from each of our rewards, on a tiny random model."""

from pathlib import Path

import pytest
from programs import python

pytest.importorskip("trl")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys, tempfile
sys.path.insert(0, {folder!r})
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl_grpo import model, tokenizer
from code_verifier import tests_reward
from evals import math_reward

passes = tests_reward()

def program(prompts, completions, **columns):  # the model's only word is what the program prints
    texts = [f"<answer>print({{text.strip()}})</answer>" for text in completions]
    return passes(prompts=prompts, completions=texts, **columns)

torch.manual_seed(0)
torch.set_num_threads(1)
rows = [
    {{"prompt": "parity 1", "inputs": [""], "outputs": [str(k)], "answer": k}} for k in range(4)
]
trainer = GRPOTrainer(
    model(),
    reward_funcs=[program, math_reward],
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(), max_steps=2, per_device_train_batch_size=16,
        num_generations=8, max_completion_length=1, logging_steps=1, save_strategy="no",
        report_to="none", use_cpu=True, disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer(),
)
trainer.train()
for entry in trainer.state.log_history[:2]:
    print(entry["rewards/program/mean"], entry["rewards/math_reward/mean"])
"""


def test_the_example_learns_from_tasks() -> None:
    example = ROOT / "examples" / "code_verifier" / "trl_grpo.py"
    lines = python(example, "--steps", "2").splitlines()
    assert lines[-1].startswith("mean reward of the first 1 steps 0.")
    assert any("'rewards/task_reward/mean'" in line for line in lines)


def test_tests_and_math_as_rewards() -> None:
    """A word is right for both or for neither."""
    folder = ROOT / "examples" / "code_verifier"
    lines = python("-c", PROGRAM.format(folder=str(folder))).splitlines()[-2:]
    pairs = [tuple(map(float, line.split())) for line in lines]
    assert [tests for tests, _ in pairs] == [math for _, math in pairs]
