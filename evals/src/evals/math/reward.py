"""The math grader as a reward of other trainers: in TRL's `reward_funcs`, and as verl calls one."""

from collections.abc import Sequence
from typing import Any

from code_verifier import completion_text
from evals.errors import EvalsError
from evals.math import grader
from evals.math.answers import Gold, canonical_gold, extract

_COLUMNS = ("answer", "final_answer", "ground_truth", "solution")
_MARKED = ("box", "boxes", "####")


def math_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """Return 1.0 for each completion whose marked final answer is the row's, else 0.0.

    The first of the columns `answer`, `final_answer`, `ground_truth` and `solution` that the
    dataset has holds the right answer: a number, LaTeX, or a solution that marks it by a box or by
    `####`, or a list of what is asked for. A row without one gives None, TRL's word for a reward
    that does not apply. Raises EvalsError when the dataset has none of the columns, and for a right
    answer that cannot be read, with its place in the batch.

        >>> math_reward([r"It is \\boxed{1/2}.", r"\\boxed{2}"], answer=["0.5", "3"])
        [1.0, 0.0]
    """
    golds = next((columns[name] for name in _COLUMNS if name in columns), None)
    if golds is None:
        raise EvalsError(f"the dataset has none of the columns {', '.join(_COLUMNS)}")
    rewards: list[float | None] = []
    for row, (completion, gold) in enumerate(zip(completions, golds, strict=True)):
        try:
            empty = gold is None or gold == ""
            rewards.append(None if empty else math_score("", completion_text(completion), gold))
        except EvalsError as error:
            raise EvalsError(f"row {row} of the batch: {error}") from None
    return rewards


def math_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None
) -> float:
    """Return the reward of one completion with the arguments of verl's `compute_score`.

    It is 1.0 for the right final answer, else 0.0. Raises EvalsError for a ground truth that is
    neither a text, a number nor a list of them, or cannot be read.

        >>> math_score("gsm8k", "so the answer is #### 1,200", "1200")
        1.0
    """
    return float(grader.grade(_gold(ground_truth), solution_str).correct)


def _gold(raw: object) -> Gold:
    marked = extract(raw) if isinstance(raw, str) else None
    gold = canonical_gold(marked.text if marked and marked.rule in _MARKED else raw)
    grader.check_gold(gold)
    return gold
