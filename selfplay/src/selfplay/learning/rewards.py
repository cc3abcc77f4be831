"""What a proposal and an answer are worth, and the advantages that members learn from.

A teacher's reward is a function of one `Proposed`, a student's of one `Attempt`; either may be a
coroutine function. `TEACHER_REWARDS` holds those that a configuration names; one's own is handed to
`train`, or named `module:function`. A refused proposal is worth -1 to each of ours.

Advantages are separate for every stratum (member, phase, task kind). Students: REINFORCE++ with
baseline (arXiv 2501.03262): subtract the mean over the attempts at the same task, then whiten over
the stratum. Teachers: AZR's task-relative REINFORCE++: whiten over the stratum only. A stratum with
fewer than two samples, or without variance, says nothing about better and worse: its advantages are
exactly 0, never NaN.
"""

from asyncio import AbstractEventLoop, gather, new_event_loop, run_coroutine_threadsafe
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from inspect import isawaitable
from threading import Thread
from traceback import extract_tb
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line
from selfplay.files.rows import BASE
from selfplay.learning.batch import TrainingSample
from selfplay.objects import called
from selfplay.sampling.texts import Attempt, Proposed

ZERO_STD = 1e-12
"""What rewards differ by counts as none up to this share of the largest: it is rounding."""

Floats: TypeAlias = npt.NDArray[np.float64]
TeacherFunction: TypeAlias = Callable[[Proposed], float]
StudentReward: TypeAlias = Callable[[Attempt], float]
Need: TypeAlias = Literal["base", "rival"]


@dataclass(frozen=True)
class TeacherReward:
    """A teacher's reward that compares those who attempt a task.

    Whoever else attempts it makes as many attempts as the matched student, and learns nothing.

    Example:

        >>> TeacherReward(lambda p: p.solve_rate - p.base_solve_rate, needs=("base",)).needs
        ('base',)
    """

    function: TeacherFunction
    needs: tuple[Need, ...] = ()
    """`base`: attempts of the frozen base, in `base_attempts`; `rival`: of another living student,
    in `rival_attempts`."""

    def __post_init__(self) -> None:
        if not set(self.needs) <= set(get_args(Need)):
            raise SelfplayError(
                f"needs is {self.needs!r}; expected a tuple of {', '.join(get_args(Need))}"
            )

    @property
    def __name__(self) -> str:
        """What the function is called."""
        return called(self.function)

    def __call__(self, proposed: Proposed) -> float:
        """Return what a proposal is worth."""
        return self.function(proposed)


def needed_by(reward: TeacherFunction | None) -> tuple[Need, ...]:
    """Return whose attempts a reward is to be given; () for a plain function."""
    return reward.needs if isinstance(reward, TeacherReward) else ()


def populora(p: Proposed) -> float:
    """Return 1 - solve rate of the matched student, 0 where it solves nothing.

    PopuLoRA (arXiv 2605.16727). The zero keeps impossible tasks unrewarded.
    """
    if p.task is None:
        return -1.0
    return 0.0 if p.solve_rate == 0.0 else 1.0 - p.solve_rate


def azr(p: Proposed) -> float:
    """Return 1 - solve rate, -0.5 where all attempts or none solve the task.

    Absolute Zero (arXiv 2505.03335), as its code has it: its equation has 0 for -0.5.
    """
    if p.task is None:
        return -1.0
    return -0.5 if p.solve_rate in (0.0, 1.0) else 1.0 - p.solve_rate


def learnability(p: Proposed) -> float:
    """Return 4 p (1 - p) of the solve rate p: 1 at a half, 0 where all attempts or none solve it.

    The variance of success, scaled: Tzannetos et al. 2023 (Proximal Curriculum), Rutherford et al.
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
"""The names that `reward.teacher` knows."""


def verifier(attempt: Attempt) -> float:
    """Return the reward of an answer by its grade, as Absolute Zero (arXiv 2505.03335) has it.

    A positive score (the verifier's, in [0, 1]; for code_f the share of hidden examples passed)
    earns itself; 0 earns -0.5; a text without an answer earns -1.
    """
    if attempt.answer is None:
        return -1.0
    return attempt.score if attempt.score > 0.0 else -0.5


def training_samples(
    solved: Sequence[Proposed],
    config: Config,
    replayed: Sequence[Attempt] = (),
    teacher_reward: TeacherFunction | None = None,
    student_reward: StudentReward | None = None,
) -> list[TrainingSample]:
    """Reward every proposal and every attempt; None: by what the configuration names of ours.

    The attempts that give a proposal its solve rate also train the student; where an agent
    proposes (mode azr), those at earlier tasks do. A task without a teacher is nobody's to learn to
    write. Returns the samples with their advantages: of all proposals first, then of all attempts,
    task by task. What got no verdict because the sandbox failed is left out. Where a reward is not
    finite, so are the advantages beside it, and the member learns nothing. Raises SelfplayError for
    a reward that is no number, one of a user's own that is not given here, and one whose base or
    rival attempted nothing.
    """
    ours = TEACHER_REWARDS.get(config.reward.teacher)
    reward = ours if teacher_reward is None else teacher_reward
    if reward is None or (student_reward is None and config.reward.student != verifier.__name__):
        raise SelfplayError(
            "the run has a reward of its own; hand over what it has: training_samples(..., "
            "teacher_reward=run.extensions.teacher_reward, student_reward=...)"
        )
    counted = [p for p in solved if not p.infra_error]
    taught = [
        p
        for p in counted
        if p.teacher is not None
        and (p.task is None or all(_has(p, need, reward) for need in needed_by(reward)))
    ]
    teaching = [
        TrainingSample(p.teacher or BASE, p.rollout, 0.0, "propose", p.id, p.kind, earned)
        for p, earned in zip(taught, _earned(reward, taught), strict=True)
    ]
    tried = [(p.id, a) for p in counted for a in p.judged]
    if config.mode == "azr" and config.rollout.tasks is None:
        tried = [(a.task.id, a) for a in replayed if not a.infra_error]
    graded = verifier if student_reward is None else student_reward
    solving = [
        TrainingSample(a.member or BASE, a.rollout, 0.0, "solve", task, a.task.kind, earned)
        for (task, a), earned in zip(tried, _earned(graded, [a for _, a in tried]), strict=True)
    ]
    by_tokens = config.mode == "azr"
    found = advantages(teaching, by_task=False, token_weighted=by_tokens)
    found += advantages(solving, by_task=True, token_weighted=by_tokens)
    return [replace(s, advantage=a) for s, a in zip(teaching + solving, found, strict=True)]


def _earned(reward: Callable[[Any], Any], written: Sequence[Proposed | Attempt]) -> list[float]:
    """Return what a reward gives for each; a coroutine function is called for all at the same time.

    Raises SelfplayError where it fails, with its place, and for what is no number.
    """

    async def awaited(value: Any, of: Proposed | Attempt) -> Any:
        with _blamed(reward, of):
            return await value

    async def together(values: Iterable[Any]) -> list[Any]:
        return await gather(*map(awaited, values, written))

    values = []
    for each in written:
        with _blamed(reward, each):
            values.append(reward(each))
    if values and all(map(isawaitable, values)):
        values = run_coroutine_threadsafe(together(values), _loop()).result()
    return [_number(reward, *pair) for pair in zip(values, written, strict=True)]


@cache
def _loop() -> AbstractEventLoop:
    """Return a loop that lasts, as clients of a service want it; a notebook has one of its own."""
    loop = new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _shown(written: Proposed | Attempt) -> tuple[str, str]:
    """Return the option of a reward, and what errors call its sample."""
    if isinstance(written, Proposed):
        return "teacher_reward", f"proposal {written.id} of {written.teacher}"
    return "student_reward", f"an attempt of {written.member} at {written.task.id}"


@contextmanager
def _blamed(reward: Callable[[Any], Any], written: Proposed | Attempt) -> Iterator[None]:
    """Turn what a reward raises into one line; a call that does not fit is blamed on the reward."""
    try:
        yield
    except SelfplayError:
        raise
    except (Exception, SystemExit) as error:  # the user's function may raise what it likes
        last, code = extract_tb(error.__traceback__)[-1], getattr(reward, "__code__", None)
        place = f" ({last.filename}, line {last.lineno})"
        if last.filename == __file__:
            place = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        option, sample = _shown(written)
        raise SelfplayError(
            f"{option}: {called(reward)} fails at {sample}: {type(error).__name__}: "
            f"{first_line(error)}{place}; expected a finite number"
        ) from error


def _number(reward: Callable[[Any], Any], value: Any, written: Proposed | Attempt) -> float:
    """Return a reward as a float. Raises SelfplayError for no number."""
    if hasattr(value, "__float__") and not getattr(value, "ndim", 0):
        with suppress(TypeError, ValueError, OverflowError, RuntimeError):
            return float(value)
    option, sample = _shown(written)
    shown = " ".join(repr(value).split())[:80]
    raise SelfplayError(
        f"{option}: {called(reward)} returns {shown} for {sample}; expected a number"
    )


def _has(p: Proposed, need: Need, reward: TeacherFunction) -> bool:
    tried = p.base_attempts if need == "base" else p.rival_attempts
    if not tried:
        raise SelfplayError(
            f"teacher_reward: {called(reward)} needs attempts of the {need}, and {p.id} has none; "
            "open the run with Extensions(teacher_reward=...)"
        )
    return any(not a.infra_error for a in tried)


@np.errstate(invalid="ignore", over="ignore")  # of rewards that are not finite
def advantages(
    samples: Sequence[TrainingSample], *, by_task: bool, token_weighted: bool = False
) -> list[float]:
    """Whiten over each stratum.

    by_task: what is left of rewards without the mean over the attempts at a task; a task with one
    attempt has no baseline and stays uncentred (as verl does).
    """
    tokens = np.array([len(s.rollout.completion_ids) for s in samples], dtype=np.float64)
    rewards = np.array([s.reward for s in samples], dtype=np.float64)
    result = np.zeros_like(rewards)
    for rows in _indices((s.member, s.phase, s.kind) for s in samples):
        values = rewards[rows]
        largest = float(np.abs(values).max())
        for of_task in _indices(samples[i].task_id for i in rows) if by_task else ():
            if len(of_task) > 1:
                of_it = values[of_task]
                values[of_task] = of_it - of_it.mean() if np.ptp(of_it) else 0.0
        result[rows] = whiten(values, largest, tokens[rows] if token_weighted else None)
    whitened: list[float] = result.tolist()
    return whitened


def whiten(values: Floats, largest: float, weights: Floats | None = None) -> Floats:
    """Return (values - mean) / std, or zeros where there is nothing to compare.

    largest: of the rewards that the values came from, whose rounding they have. Without weights the
    mean is over samples. With token counts as weights it is over tokens, as in AZR, so that long
    texts weigh more. The variance is unbiased (n - 1; n = samples or tokens).
    """
    w = np.ones_like(values) if weights is None else weights
    n = float(w.sum())
    if len(values) < 2 or n <= 1.0:
        return np.zeros_like(values)
    centred = values - float((w * values).sum()) / n
    std = float(np.sqrt((w * centred**2).sum() / (n - 1.0)))
    return np.zeros_like(values) if std <= ZERO_STD * largest else centred / std


def _indices(keys: Iterable[Hashable]) -> list[list[int]]:
    positions: dict[Hashable, list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        positions[key].append(position)
    return list(positions.values())
