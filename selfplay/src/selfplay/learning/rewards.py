"""Rewards of proposals and answers, and the advantages that members learn from.

A teacher's reward is a function of one `Proposed`, a student's of one `Attempt`; either may be a
coroutine function. `TEACHER_REWARDS` holds the built-in ones. Pass your own to `train` in
`Extensions`, or name it `module:function`. Every built-in one gives a refused proposal -1.

Advantages are separate for every stratum (member, phase, task kind). Students: REINFORCE++ with
baseline (arXiv 2501.03262): subtract the mean over the attempts at the same task, then whiten over
the stratum. Teachers: AZR's task-relative REINFORCE++: whiten over the stratum only. In a stratum
with fewer than two samples, or without variance, all advantages are exactly 0, never NaN.
"""

from asyncio import AbstractEventLoop, gather, new_event_loop, run_coroutine_threadsafe
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from inspect import isawaitable
from threading import Thread
from traceback import extract_tb
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line
from selfplay.files.intervals import Floats
from selfplay.files.rows import BASE
from selfplay.learning.batch import TrainingSample
from selfplay.learning.pieces import grouped
from selfplay.objects import called
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.tasks.kind import TASKSET

ZERO_STD = 1e-12
"""A standard deviation of rewards up to this share of the largest is rounding, and counts as 0."""

TeacherFunction: TypeAlias = Callable[[Proposed], float]
StudentReward: TypeAlias = Callable[[Attempt], float]
Need: TypeAlias = Literal["base", "rival"]


@dataclass(frozen=True)
class TeacherReward:
    """A teacher's reward that also needs attempts of the frozen base or of another student.

    These make as many attempts as the matched student, and are not trained on them.

    Example:

        >>> TeacherReward(lambda p: p.solve_rate - p.base_solve_rate, needs=("base",)).needs
        ('base',)
    """

    function: TeacherFunction
    needs: tuple[Need, ...] = ()
    """`base`: fill `Proposed.base_attempts`, the frozen base's; `rival`: fill `rival_attempts`,
    another living student's."""

    def __post_init__(self) -> None:
        if not set(self.needs) <= set(get_args(Need)):
            raise SelfplayError(
                f"needs is {self.needs!r}; expected a tuple of {', '.join(get_args(Need))}"
            )

    @property
    def __name__(self) -> str:
        return called(self.function)

    def __call__(self, proposed: Proposed) -> float:
        return self.function(proposed)


def needed_by(reward: TeacherFunction | None) -> tuple[Need, ...]:
    """Return the attempts that a reward needs besides the student's; () for a plain function."""
    return reward.needs if isinstance(reward, TeacherReward) else ()


def populora(p: Proposed) -> float:
    """Return 1 - the matched student's solve rate; 0 if that is 0: impossible tasks earn nothing.

    PopuLoRA (arXiv 2605.16727).
    """
    if p.task is None:
        return -1.0
    return 0.0 if p.solve_rate == 0.0 else 1.0 - p.solve_rate


def azr(p: Proposed) -> float:
    """Return 1 - solve rate; -0.5 if the solve rate is 0 or 1.

    Absolute Zero (arXiv 2505.03335), as in its code; its equation has 0 for -0.5.
    """
    if p.task is None:
        return -1.0
    return -0.5 if p.solve_rate in (0.0, 1.0) else 1.0 - p.solve_rate


def learnability(p: Proposed) -> float:
    """Return 4 p (1 - p) of the solve rate p: 1 at p = 0.5, 0 at p = 0 and 1.

    The scaled variance of success: Tzannetos et al. 2023 (Proximal Curriculum), Rutherford et al.
    2024 (Sampling for Learnability).
    """
    return -1.0 if p.task is None else 4.0 * p.solve_rate * (1.0 - p.solve_rate)


def regret(p: Proposed) -> float:
    """Return the solve rate of another living student minus the matched one's, at least 0.

    PAIRED (Dennis et al. 2020), with another member of the population as the antagonist.
    """
    return -1.0 if p.task is None else max(0.0, p.rival_solve_rate - p.solve_rate)


TEACHER_REWARDS: Mapping[str, TeacherFunction] = {
    "populora": populora,
    "azr": azr,
    "learnability": learnability,
    "regret": TeacherReward(regret, needs=("rival",)),
}
"""By the names for `reward.teacher`."""


def verifier(attempt: Attempt) -> float:
    """Return the reward of an answer by its grade, as in Absolute Zero (arXiv 2505.03335).

    A positive score is the reward (1 of a built-in kind: for code_f, if all hidden examples pass);
    score 0 earns -0.5, a text without an answer -1. A reply to a taskset's prompt earns its score.
    """
    if attempt.answer is None:
        return -1.0
    if attempt.task.kind == TASKSET:
        return attempt.score
    return attempt.score if attempt.score > 0.0 else -0.5


def training_samples(
    solved: Sequence[Proposed],
    config: Config,
    replayed: Sequence[Attempt] = (),
    teacher_reward: TeacherFunction | None = None,
    student_reward: StudentReward | None = None,
) -> list[TrainingSample]:
    """Return a training sample, with its advantage, for every proposal and every attempt.

    Proposals come first, then attempts, task by task. The attempts that give a proposal its solve
    rate also train the student; in mode azr the attempts at earlier tasks do instead. A task of
    `rollout.tasks` has no proposal to learn from. Held-out tasks are left out, and proposals and
    attempts at which the sandbox failed. If a reward is not finite, the advantages of its stratum
    are not either, and the member learns nothing.

    teacher_reward, student_reward: None for the built-in one that the configuration names. Raises
    SelfplayError for a reward that is not a number, for a user's own reward that is not passed, and
    for one whose base or rival has no attempts.
    """
    built_in = TEACHER_REWARDS.get(config.reward.teacher)
    reward = built_in if teacher_reward is None else teacher_reward
    if reward is None or (student_reward is None and config.reward.student != verifier.__name__):
        raise SelfplayError(
            "the run has a reward of its own; pass it: training_samples(..., "
            "teacher_reward=run.extensions.teacher_reward, student_reward=...)"
        )
    judged = [p for p in solved if not p.infra_error and not p.held_out]
    needs, proposals = needed_by(reward), [p for p in judged if p.teacher is not None]
    proposals = [p for p in proposals if not p.task or all(_has(p, n, reward) for n in needs)]
    teaching = [
        TrainingSample(p.teacher or BASE, p.rollout, 0.0, "propose", p.id, p.kind, number, p)
        for p, number in zip(proposals, _rewards(reward, proposals), strict=True)
    ]
    attempts = [(p.id, a) for p in judged for a in p.judged]
    if config.proposers == config.solvers:
        attempts = [(a.task.id, a) for a in replayed if not a.infra_error]
    grading = verifier if student_reward is None else student_reward
    numbers = _rewards(grading, [a for _, a in attempts])
    solving = [
        TrainingSample(a.member or BASE, a.rollout, 0.0, "solve", task, a.task.kind, number, a)
        for (task, a), number in zip(attempts, numbers, strict=True)
    ]
    by_tokens = config.mode == "azr"
    whitened = advantages(teaching, by_task=False, token_weighted=by_tokens)
    whitened += advantages(solving, by_task=True, token_weighted=by_tokens)
    return [replace(s, advantage=a) for s, a in zip(teaching + solving, whitened, strict=True)]


def _rewards(reward: Callable[[Any], Any], texts: Sequence[Proposed | Attempt]) -> list[float]:
    """Return the reward of each text; calls of a coroutine function run concurrently."""

    async def awaited(value: Any, text: Proposed | Attempt) -> Any:
        with _blame(reward, text):
            return await value

    async def together(values: Iterable[Any]) -> list[Any]:
        return await gather(*map(awaited, values, texts))

    values = []
    for text in texts:
        with _blame(reward, text):
            values.append(reward(_copied(text)))
    if values and all(map(isawaitable, values)):
        values = run_coroutine_threadsafe(together(values), _loop()).result()
    return [_number(reward, *pair) for pair in zip(values, texts, strict=True)]


def _copied(text: Proposed | Attempt) -> Proposed | Attempt:
    """Return a copy, whose changes change neither training nor rows."""
    text = copy(text)
    for name in ("attempts", "base_attempts", "rival_attempts") * isinstance(text, Proposed):
        setattr(text, name, list(map(copy, getattr(text, name))))
    return text


_loops: list[AbstractEventLoop] = []


def _loop() -> AbstractEventLoop:
    """Return an event loop for the whole process, as HTTP clients need."""
    if not _loops:  # threads that ask at the same time may each start one; all use the first
        _loops.append(loop := new_event_loop())
        Thread(target=loop.run_forever, daemon=True).start()
    return _loops[0]


def _title(text: Proposed | Attempt) -> tuple[str, str]:
    """Return the option of a reward, and the name of its sample in errors."""
    if isinstance(text, Proposed):
        return "teacher_reward", f"proposal {text.id} of {text.teacher}"
    return "student_reward", f"an attempt of {text.member} at {text.task.id}"


@contextmanager
def _blame(reward: Callable[[Any], Any], text: Proposed | Attempt) -> Iterator[None]:
    """Turn an error of a reward into one line with its place, or the reward's if it is here."""
    try:
        yield
    except SelfplayError:
        raise
    except (Exception, SystemExit) as error:  # the user's function may raise anything
        last, code = extract_tb(error.__traceback__)[-1], getattr(reward, "__code__", None)
        place = f" ({last.filename}, line {last.lineno})"
        if last.filename == __file__:
            place = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        option, sample = _title(text)
        raise SelfplayError(
            f"{option}: {called(reward)} fails at {sample}: {type(error).__name__}: "
            f"{first_line(error)}{place}; expected a finite number"
        ) from error


def _number(reward: Callable[[Any], Any], value: Any, text: Proposed | Attempt) -> float:
    """Return a reward as a float. Raises SelfplayError for a value that is not a number."""
    if hasattr(value, "__float__") and not getattr(value, "ndim", 0):
        with suppress(TypeError, ValueError, OverflowError, RuntimeError):
            return float(value)
    option, sample = _title(text)
    raise SelfplayError(
        f"{option}: {called(reward)} returns {' '.join(repr(value).split())[:80]} for {sample}; "
        "expected a number"
    )


def _has(p: Proposed, need: Need, reward: TeacherFunction) -> bool:
    """Return whether a needed attempt was judged. Raises SelfplayError if there is no attempt."""
    attempts = p.base_attempts if need == "base" else p.rival_attempts
    if not attempts:
        raise SelfplayError(
            f"teacher_reward: {called(reward)} needs attempts of the {need}, and {p.id} has none; "
            "open the run with Extensions(teacher_reward=...)"
        )
    return any(not a.infra_error for a in attempts)


@np.errstate(invalid="ignore", over="ignore")  # from rewards that are not finite
def advantages(
    samples: Sequence[TrainingSample], *, by_task: bool, token_weighted: bool = False
) -> list[float]:
    """Return rewards whitened over each stratum.

    by_task: subtract the mean over the attempts at each task first; a task with one attempt has no
    baseline and stays uncentred (as in verl). token_weighted: as `weights` of `whiten`.
    """
    tokens = np.array([len(s.rollout.completion_ids) for s in samples], dtype=np.float64)
    rewards = np.array([s.reward for s in samples], dtype=np.float64)
    result = np.zeros_like(rewards)
    for rows in grouped((s.member, s.phase, s.kind) for s in samples):
        values = rewards[rows]
        largest = float(np.abs(values).max())
        for of_task in grouped(samples[i].task_id for i in rows) if by_task else ():
            if len(of_task) > 1:
                of_it = values[of_task]
                values[of_task] = of_it - of_it.mean() if np.ptp(of_it) else 0.0
        result[rows] = whiten(values, largest, tokens[rows] if token_weighted else None)
    return [float(advantage) for advantage in result]


def whiten(values: Floats, largest: float, weights: Floats | None = None) -> Floats:
    """Return (values - mean) / std, or zeros for fewer than two values or equal ones.

    largest: the largest absolute reward, which scales rounding. weights: token counts, for a mean
    over tokens as in AZR, so that long texts weigh more; None for a mean over samples. The variance
    is unbiased (n - 1; n = samples or tokens).
    """
    w = np.ones_like(values) if weights is None else weights
    n = float(w.sum())
    if len(values) < 2 or n <= 1.0:
        return np.zeros_like(values)
    centred = values - float((w * values).sum()) / n
    std = float(np.sqrt((w * centred**2).sum() / (n - 1.0)))
    return np.zeros_like(values) if std <= ZERO_STD * largest else centred / std
