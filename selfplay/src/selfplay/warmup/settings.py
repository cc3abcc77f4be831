"""How a warm start is made."""

from dataclasses import dataclass, replace
from pathlib import Path

from selfplay.config.run_config import RunConfig
from selfplay.learning.settings import LearnerConfig


@dataclass(frozen=True)
class WarmupSettings:
    """A supervised run; names as in transformers' TrainingArguments where it has them."""

    data: Path
    """Tasks, as JSON Lines."""
    steps: int = 200
    batch_size: int = 8
    """Examples a step."""
    learning_rate: float = 2e-4
    """At its highest: it rises over a twentieth of the steps and falls to a tenth."""
    max_length: int = 640
    """Longest prompt and completion, in tokens; longer examples are left out."""
    held_out: int = 24
    """Programs whose tasks are only measured."""
    eval_every: int = 50
    """Steps between two measurements."""
    save_every: int = 10
    """Steps between two checkpoints."""
    seed: int = 0

    def learner(self, config: LearnerConfig) -> LearnerConfig:
        """Return a run's learner with this schedule; adapters and optimiser are the run's."""
        return replace(
            config,
            learning_rate=self.learning_rate,
            teacher_learning_rate=None,
            lr_scheduler_type="linear",
            min_lr_rate=0.1,
            warmup_steps=self.steps // 20,
        )

    def single(self, config: RunConfig) -> RunConfig:
        """Return the run's configuration with one adapter, on its own module."""
        return replace(
            config,
            mode="azr",
            engine="hf",
            seed=self.seed,
            warm_start=None,
            learner=self.learner(config.learner),
        )
