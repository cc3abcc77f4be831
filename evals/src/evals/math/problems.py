"""Grade final answers: in the seven math benchmarks, and as a reward for TRL (`reward_funcs`) and
verl (`compute_score`)."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from code_verifier import completion_text
from evals.data import Record, row_id
from evals.errors import EvalsError
from evals.math import grader
from evals.math.final_answers import canonical_gold, extract
from evals.question import Grading, Pairs, Question, SampleVerdict
from evals.recipes import MATH

_ANSWERS = {
    "minerva_math": ("solution or answer", "a solution with \\boxed{...}, or an answer"),
    "gsm8k": ("answer", "a solution that ends in #### 18"),
    "olympiadbench": ("final_answer", "a list with one text"),
}
"""Name -> columns, of which the first present holds the right answer, and its form."""
_PLAIN = ("answer", "a text or a number")
_NUMBERED = ("gsm8k", "minerva_math")
"""Benchmarks without ids on the hub: the id of a row is its number."""
IDS = ("unique_id", "id", "idx", "task_id", "question_id", "problem_id")
"""Columns, of which the first present holds the id of a row."""


def question(name: str, row: Record, number: int) -> Question:
    """Return the question of a row. number: of the row, from 1. Raises EvalsError in one line for a
    missing column or id, and a row without a right answer."""
    columns, hint = _ANSWERS.get(name, _PLAIN)
    problem = _problem(row)
    id = row_id(row, IDS, number - 1 if name in _NUMBERED or name not in MATH else "")
    column, answer = _answer(name, row)
    parts = {"problem or question": problem, "id": id, columns: column}
    place = f"{name}, row {number}"
    if missing := [part for part, value in parts.items() if not value]:
        names = ", ".join(sorted(map(str, row))) or "none"
        raise EvalsError(f"{place}: no {', '.join(missing)}; found the columns {names}")
    if answer in (None, "", []):
        raise EvalsError(f"{place}: no answer in {column}; expected {hint}")
    level, unit = row.get("level"), row.get("unit")
    unit = unit if isinstance(unit, str) else ""
    try:
        gold = canonical_gold(answer, problem, unit, measured=name == "minerva_math")
        grader.check_gold(gold)
    except EvalsError as error:
        raise EvalsError(f"{place}: {error} (in {column})") from None
    fields = {"question": problem, "answer": str(row[column])}
    return Question(id, fields, gold, level if isinstance(level, int) else 0)


def _problem(row: Record) -> str:
    texts = (row[key] for key in ("problem", "question", "prompt") if row.get(key))
    return next((text for text in texts if isinstance(text, str)), "")


def _answer(name: str, row: Record) -> tuple[str, object]:
    """The column of a row's right answer, or "", and the answer: a solution's last box, the text
    after ####, or the value."""
    columns = _ANSWERS.get(name, _PLAIN)[0].split(" or ")
    column = next((key for key in columns if row.get(key) not in (None, "")), "")
    value = row.get(column)
    if column == "solution":
        extraction = extract(str(value))
        value = extraction.text if extraction.rule == "box" else None
    elif name == "gsm8k" or (name not in MATH and "####" in str(value)):
        _, mark, text = str(value).rpartition("####")
        value = text.strip() if mark else None
    return column, value


def published_rows(name: str, rows: Iterable[Record]) -> Iterator[Record]:
    """Yield rows in the form from which the known fingerprints are computed."""
    for number, row in enumerate(rows):
        text = _problem(row).strip()
        _, answer = _answer(name, row)
        if isinstance(answer, list):
            answer = ", ".join(map(str, answer))
        if isinstance(answer, float) and answer.is_integer():
            answer = int(answer)
        truth = str(answer).strip()
        truth = truth.replace(",", "") if name == "gsm8k" else truth
        yield {"problem_idx": number, "problem": text, "ground_truth": truth}


def grade(pairs: Pairs, how: Grading) -> Iterator[SampleVerdict]:
    """Grade answers. details: the gold that an answer was compared with."""
    for question, sample in pairs:
        graded = grader.grade(question.problem, sample.response, how.template)
        yield SampleVerdict.on(question, sample, *graded, gold=question.problem.text)


_COLUMNS = ("answer", "final_answer", "ground_truth", "solution")
_MARKED = ("box", "boxes", "####")
_UNREAD = "an answer is right there only if its text is equal; evals.check_golds lists such rows"


def math_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """Return 1.0 for each completion whose marked final answer is the row's, else 0.0.

    The right answer is in the first of the columns `answer`, `final_answer`, `ground_truth` and
    `solution` that the dataset has: a number, LaTeX, a solution that marks it by a box or by
    `####`, or a list of required values. The column `question` or `problem`, if there is one, may
    ask for per cent or name a unit. A row without one gives None, which for TRL means that the
    reward does not apply. If a right answer cannot be read, an answer must have the same text; a
    warning names the first such row of a batch, and their number. Raises EvalsError when the
    dataset has none of the columns.

        >>> math_reward([r"It is \\boxed{1/2}.", r"\\boxed{2}"], answer=["0.5", "3"])
        [1.0, 0.0]
    """
    golds = next((columns[name] for name in _COLUMNS if name in columns), None)
    if golds is None:
        raise EvalsError(f"the dataset has none of the columns {', '.join(_COLUMNS)}")
    questions = columns.get("question") or columns.get("problem") or [""] * len(completions)
    rewards: list[float | None] = []
    faults: list[str] = []
    for row, (completion, gold, text) in enumerate(zip(completions, golds, questions, strict=True)):
        prompt = columns["prompts"][row] if "prompts" in columns else None
        fault, score = _score(gold, completion_text(completion, prompt), text)
        rewards.append(None if _is_missing(gold) else score)
        if fault and not _is_missing(gold):
            faults.append(f"row {row} of the batch: {fault}")
    if faults:
        count = f"{len(faults)} of {len(rewards)} rows"
        warnings.warn(f"{faults[0]}; so in {count}: {_UNREAD}", stacklevel=2)
    return rewards


def math_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None
) -> float:
    """Return the reward of one completion with the arguments of verl's `compute_score`.

    It is 1.0 for the right final answer, else 0.0. The question, which may ask for per cent or name
    a unit, is `question` of extra_info, as in verl's GSM8K, else data_source. If a ground truth
    cannot be read, an answer must have the same text, and there is a warning.

        >>> math_score("gsm8k", "so the answer is #### 1,200", "1200")
        1.0
    """
    question = extra_info.get("question") if isinstance(extra_info, Mapping) else None
    fault, score = _score(ground_truth, solution_str, question or data_source)
    if fault:
        warnings.warn(f"{fault}; {_UNREAD}", stacklevel=2)
    return score


def check_golds(rows: Iterable[Any]) -> list[tuple[int, str]]:
    """Return the place, from 0, of each right answer that rewards cannot read, and why.

    rows: those of a dataset, with a right answer in a column of `math_reward`, or right answers.

        >>> check_golds([{"answer": "3"}, {"answer": "3 blargs"}])
        [(1, "the right answer '3 blargs' cannot be read: blargs")]
    """
    faults = []
    for place, row in enumerate(rows):
        gold = row
        if isinstance(row, Mapping):
            gold = next((row[name] for name in _COLUMNS if name in row), None)
        if fault := "no right answer" if _is_missing(gold) else _score(gold, "")[0]:
            faults.append((place, fault))
    return faults


def _is_missing(gold: object) -> bool:
    return gold is None or gold == "" or gold != gold


def _score(truth: Any, response: str, question: object = "") -> tuple[str, float]:
    """Why a right answer cannot be read, or "", and the reward of a response."""
    marked = extract(truth) if isinstance(truth, str) else None
    text = marked.text if marked and marked.rule in _MARKED else truth
    gold = None
    try:
        gold = canonical_gold(text, question if isinstance(question, str) else "")
        grader.check_gold(gold)
    except EvalsError as error:
        return str(error), float(gold is not None and grader.has_text(gold.text, response))
    return "", float(grader.grade(gold, response).correct)
