"""What runs of the pages' and examples' programs have in common."""

import pytest

import selfplay

LESS = (
    *("rollout.kinds=[code_o]", "rollout.num_generations=3", "rollout.seed_tasks=4"),
    *("rollout.max_proposal_length=64", "rollout.max_completion_length=32"),
    *("learner.r=2", "learner.lora_alpha=4", "sandbox.workers=1"),
)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets have fewer and shorter attempts, whatever else a program sets."""
    plainly = selfplay.load_preset
    monkeypatch.setattr(
        selfplay, "load_preset", lambda name, *texts, **more: plainly(name, *texts, *LESS, **more)
    )
