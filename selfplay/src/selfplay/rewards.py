"""What a proposal and an answer are worth, and the advantages that members learn from.

Teachers: PopuLoRA (arXiv 2605.16727), reward by the matched student's solve rate. Its zero at a
solve rate of 0 keeps impossible tasks unrewarded. Single agent (`--mode azr`): Absolute Zero (arXiv
2505.03335) as its code has it. Students: right and well-formed 1, wrong -0.5, ill-formed -1.

Advantages are separate for every stratum (member, role, task kind). Students: REINFORCE++ with
baseline (arXiv 2501.03262): subtract the mean over the attempts at the same task, then whiten over
the stratum. Teachers: AZR's task-relative REINFORCE++: whiten over the stratum only. A stratum with
fewer than two samples, or without variance, says nothing about better and worse: its advantages are
exactly 0, never NaN.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from selfplay.config import Config, RewardConfig
from selfplay.errors import SelfplayError
from selfplay.learning.batch import TrainingSample
from selfplay.rollout import Attempt, Proposed

ZERO_STD = 1e-8
"""Standard deviations of rewards at or below this count as none."""

Floats: TypeAlias = npt.NDArray[np.float64]


def teacher_reward(valid: bool, solve_rate: float) -> float:
    """Return -1 for an invalid task, 0 if no attempt solved it, else 1 - solve_rate.

    Valid: it parses, runs and is deterministic. solve_rate is the share of the matched student's
    attempts that solved it, in [0, 1]; it is not looked at when the task is invalid.
    """
    if not valid:
        return -1.0
    return 0.0 if _share("solve rate", solve_rate) == 0.0 else 1.0 - solve_rate


def azr_proposer_reward(valid: bool, solve_rate: float) -> float:
    """Return -1 for an invalid task, -0.5 at a solve rate of 0 or 1, else 1 - solve_rate.

    AZR's equation has 0 where its code has -0.5; this is the code.
    """
    if not valid:
        return -1.0
    return -0.5 if _share("solve rate", solve_rate) in (0.0, 1.0) else 1.0 - solve_rate


def student_reward(well_formed: bool, score: float, values: RewardConfig | None = None) -> float:
    """Return the reward of one answer.

    score in [0, 1] is the verifier's (for code_f the share of hidden examples passed, or 0/1). A
    positive score earns score * `right`; 0 earns `wrong`; an answer that cannot be read earns
    `ill_formed` whatever its score.
    """
    table = values or RewardConfig()
    if not well_formed:
        return table.ill_formed
    return table.right * score if _share("score", score) > 0.0 else table.wrong


def _share(name: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise SelfplayError(f"{name} is {value}, expected a number from 0 to 1")
    return value


def training_samples(
    solved: Sequence[Proposed], config: Config, replayed: Sequence[Attempt] = ()
) -> list[TrainingSample]:
    """Reward every proposal by its matched student's solve rate and every attempt by its grade.

    The attempts that give a proposal its solve rate also train the student, unless those at
    earlier tasks do (`rollout.train_on`). Returns the samples with their advantages: of all
    proposals first, then of all attempts, task by task. What got no verdict because the sandbox
    failed is left out.
    """
    value = azr_proposer_reward if config.mode == "azr" else teacher_reward
    counted = [p for p in solved if not p.infra_error]
    teaching = [
        _sample(p.teacher, "propose", p, p.id, p.kind, value(p.task is not None, p.solve_rate))
        for p in counted
    ]
    tried = [(p.id, a) for p in counted for a in p.judged]
    if config.rollout.train_on == "buffer":
        tried = [(a.task.id, a) for a in replayed if not a.infra_error]
    solving = [
        _sample(
            *(a.member, "solve", a, task, a.task.kind),
            student_reward(a.answer is not None, a.score, config.reward),
        )
        for task, a in tried
    ]
    by_tokens = config.reward.whiten == "tokens"
    advantages = teacher_advantages(teaching, token_weighted=by_tokens)
    advantages += student_advantages(solving, token_weighted=by_tokens)
    samples = teaching + solving
    return [replace(s, advantage=a) for s, a in zip(samples, advantages, strict=True)]


def _sample(
    member: str | None, role: str, written: Proposed | Attempt, task: str, kind: str, reward: float
) -> TrainingSample:
    if member is None:
        raise SelfplayError(f"{task} was written by the base model, which is frozen")
    rollout = written.rollout
    return TrainingSample(
        member=member,
        prompt_ids=rollout.prompt_ids,
        completion_ids=rollout.completion_ids,
        logprobs=rollout.logprobs,
        truncated=rollout.finish_reason == "length",
        role=role,
        task=task,
        kind=kind,
        reward=reward,
    )


def student_advantages(
    samples: Sequence[TrainingSample], *, token_weighted: bool = False
) -> list[float]:
    """Centre over the attempts at each task, then whiten over each stratum.

    A task with one attempt has no baseline and stays uncentred (as verl does).
    """
    centred = _rewards(samples)
    for rows in _indices((s.member, s.role, s.kind, s.task) for s in samples):
        if len(rows) > 1:
            centred[rows] -= centred[rows].mean()
    return _whiten_strata(samples, centred, token_weighted)


def teacher_advantages(
    samples: Sequence[TrainingSample], *, token_weighted: bool = False
) -> list[float]:
    """Whiten over each stratum (AZR's TRR++: one baseline per role and task kind)."""
    return _whiten_strata(samples, _rewards(samples), token_weighted)


def whiten(values: Floats, weights: Floats | None = None) -> Floats:
    """Return (values - mean) / std, or zeros where there is nothing to compare.

    Without weights the mean is over samples. With token counts as weights it is over tokens, as in
    AZR, so that long texts weigh more. The variance is unbiased (n - 1; n = samples or tokens).
    """
    if len(values) < 2:
        return np.zeros_like(values)
    w = np.ones_like(values) if weights is None else weights
    n = float(w.sum())
    if n <= 1.0:
        return np.zeros_like(values)
    centred = values - float((w * values).sum()) / n
    std = float(np.sqrt((w * centred**2).sum() / (n - 1.0)))
    return np.zeros_like(values) if std <= ZERO_STD else centred / std


def _rewards(samples: Sequence[TrainingSample]) -> Floats:
    rewards = np.array([s.reward for s in samples], dtype=np.float64)
    if not np.isfinite(rewards).all():
        raise SelfplayError("a reward is no finite number")
    return rewards


def _indices(keys: Iterable[Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        found[key].append(position)
    return list(found.values())


def _whiten_strata(
    samples: Sequence[TrainingSample], values: Floats, token_weighted: bool
) -> list[float]:
    tokens = np.array([len(s.completion_ids) for s in samples], dtype=np.float64)
    result = np.zeros_like(values)
    for rows in _indices((s.member, s.role, s.kind) for s in samples):
        result[rows] = whiten(values[rows], tokens[rows] if token_weighted else None)
    found: list[float] = result.tolist()
    return found
