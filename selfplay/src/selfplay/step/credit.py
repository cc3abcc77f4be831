"""From judged proposals and attempts to training samples: rewards, then advantages."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.engine.rollout import Rollout
from selfplay.config.run_config import RunConfig
from selfplay.learning.advantage import RewardedSample, student_advantages, teacher_advantages
from selfplay.learning.learner import TrainingSample
from selfplay.learning.reward import azr_proposer_reward, student_reward, teacher_reward
from selfplay.run.stages import Solved


@dataclass(frozen=True)
class Credit:
    """What a step teaches whom."""

    samples: tuple[TrainingSample, ...]
    proposals: tuple[RewardedSample, ...]
    """One per proposal that was judged, in order; what the sandbox itself broke is left out."""
    attempts: tuple[RewardedSample, ...]
    """One per judged attempt, task by task."""
    frac_reward_zero_std: float
    """Share of tasks all of whose attempts earned the same."""


def assign_credit(solved: Sequence[Solved], config: RunConfig) -> Credit:
    """Reward every proposal by its matched student's solve rate, and every attempt by its grade.

    The same attempts give a proposal's solve rate and train the student.
    """
    value = azr_proposer_reward if config.mode == "azr" else teacher_reward
    proposals, proposal_rollouts = [], []
    attempts, attempt_rollouts = [], []
    for s in solved:
        if s.void:
            continue
        p, written = s.verified.proposed, s.verified.proposed.written.rollout
        reward = value(s.verified.task is not None, s.rho)
        proposals.append(_sample(p.match.teacher, "propose", p.kind, reward, p.id, written))
        proposal_rollouts.append(written)
        for a in s.judged:
            reward = student_reward(a.answer is not None, a.score, config.reward)
            attempts.append(_sample(p.match.student, "solve", p.kind, reward, p.id, a.rollout))
            attempt_rollouts.append(a.rollout)
    teaching = teacher_advantages(proposals)
    solving = student_advantages(attempts)
    samples = [
        _training(s, rollout, advantage)
        for rewarded, rollouts, advantages in (
            (proposals, proposal_rollouts, teaching.values),
            (attempts, attempt_rollouts, solving.values),
        )
        for s, rollout, advantage in zip(rewarded, rollouts, advantages, strict=True)
    ]
    return Credit(tuple(samples), tuple(proposals), tuple(attempts), solving.frac_reward_zero_std)


def _sample(
    member: str, role: str, kind: str, reward: float, task: str, rollout: Rollout
) -> RewardedSample:
    return RewardedSample(member, role, kind, reward, task, len(rollout.completion_ids))


def _training(sample: RewardedSample, rollout: Rollout, advantage: float) -> TrainingSample:
    return TrainingSample(
        member=sample.member,
        prompt_ids=rollout.prompt_ids,
        completion_ids=rollout.completion_ids,
        logprobs=rollout.logprobs,
        advantage=advantage,
        truncated=rollout.finish_reason == "length",
        role=sample.role,
        task=str(sample.task),
    )
