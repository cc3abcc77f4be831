"""TRL's GRPOTrainer learns from our reward, on a tiny random model."""

from pathlib import Path

import pytest
from programs import python

pytest.importorskip("trl")
ROOT = Path(__file__).parents[2]


def test_the_example_learns_from_tasks() -> None:
    example = ROOT / "examples" / "code_verifier" / "trl_grpo.py"
    lines = python(example, "--steps", "2").splitlines()
    assert lines[-1].startswith("mean reward of the first 1 steps 0.")
    assert any("'rewards/task_reward/mean'" in line for line in lines)
