"""Rewards for other trainers: TRL's `reward_funcs`, verl's `compute_score`, tasks of `verifiers`.

The columns of a dataset's row decide how an answer is judged. A task of ours has `kind` and what
`Task.from_row` needs; any other row has tests of a whole program, see `scripts.suites.read_tests`.
None of the libraries is imported here.
"""

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from code_verifier.answers import find_answer, find_program, opened_thought
from code_verifier.errors import CodeVerifierError, ProgramError, SandboxUnavailable
from code_verifier.parallel import ordered_map
from code_verifier.process import DOCTOR
from code_verifier.sandbox import Sandbox, shared_sandbox
from code_verifier.scripts.assertions import SHOWN
from code_verifier.scripts.grades import run_tests
from code_verifier.scripts.runner import ScriptRunner
from code_verifier.scripts.suites import Suite, read_tests
from code_verifier.syntax import bound_names, parse_program
from code_verifier.tasks import Grade, Task
from code_verifier.user_files import name_of, program_of, require_type

Parse = Callable[[str], str | None]
"""Finds the answer in a completion's text, or None."""
TEST_S = 6.0
"""Processor seconds that a program may take for each test, as in LiveCodeBench."""
_REFERENCES = ("canonical_solution", "code", "reference_solution", "solution", "solutions")
_COLUMNS = str.split(
    "kind program snippet imports input output inputs outputs visible test_list assert_case test "
    "test_imports test_setup_code entry_point fn_name input_output public_tests private_tests "
    "generated_tests public_test_cases private_test_cases metadata prompt"
)
_COLUMNS += _REFERENCES


def completion_text(completion: Any, prompt: Any = None) -> str:
    """Return the text of a completion, "" if it has none. A completion is a text, or a list of
    messages; of these the assistant's last one counts, with a text or parts with `text`. prompt: if
    it is a text that opens a thought, its mark comes first, so that the completion begins there."""
    if mark := opened_thought(prompt):
        return mark + completion_text(completion)
    if isinstance(completion, str):
        return completion
    for message in reversed(completion) if isinstance(completion, Sequence) else ():
        if _field(message, "role") == "assistant":
            content = _field(message, "content")
            if isinstance(content, str):
                return content
            parts = content if isinstance(content, Sequence) else ()
            return "".join(str(_field(part, "text") or "") for part in parts)
    return ""


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


class Reward:
    """A reward function for TRL. `completions` and each column have one item for each completion;
    `read` makes a task or tests of a row. `prompts` tell which completions begin in a thought."""

    def __init__(
        self,
        name: str,
        read: Callable[[Mapping[str, Any]], Task | Suite],
        parse: Parse | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.__name__ = name  # in TRL's logs
        self._read = read
        self._parse = parse
        self._sandbox = sandbox

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        if "prompts" in columns:  # TRL's name for the column `prompt`
            columns.setdefault("prompt", columns["prompts"])
        table = {name: column for name, column in columns.items() if name in _COLUMNS}
        prompts = columns.get("prompts")
        pairs: dict[int, tuple[Task | Suite, str]] = {}
        for index, completion in enumerate(completions):
            task = self._read(_plain({name: column[index] for name, column in table.items()}))
            prompt = prompts[index] if prompts and self._parse is None else None
            answer = _answer(task, completion_text(completion, prompt), self._parse)
            if answer is not None:
                pairs[index] = (task, answer)
        sandbox = self._sandbox or shared_sandbox()
        grades = ordered_map(
            lambda pair: _judge(*pair, sandbox), pairs.values(), sandbox.workers, share=True
        )
        rewards = dict(zip(pairs, map(_score_or_none, grades), strict=True))
        solved = {task for index, (task, _) in pairs.items() if rewards[index] != 0.0}
        for index, (task, _) in pairs.items():
            if task not in solved:
                row = {n: columns[n][index] for n in columns if n in (*_COLUMNS, "id", "task_id")}
                _check_once(task, row, sandbox)
        return [rewards.get(index, 0.0) for index in range(len(completions))]


def _plain(value: Any) -> Any:
    """A row of a data set with lists in place of arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


_shared: dict[type, ScriptRunner] = {}


def shared_runner() -> ScriptRunner:
    """Return the processes of whole programs, started when first needed; as `shared_sandbox`."""
    return _shared.get(ScriptRunner) or _shared.setdefault(ScriptRunner, ScriptRunner())


_faults: list[str] = []


def _score_or_none(grade: Grade) -> float | None:
    """The score; None if the sandbox failed, with a warning once in a process."""
    if grade.judged:
        return grade.score
    if not _faults:
        _faults.append(grade.reason)
        warnings.warn(
            f"an answer was not judged: {grade.reason}; the rewards of such answers are None; "
            f"{DOCTOR}",
            stacklevel=3,
        )
    return None


def _read(row: Mapping[str, Any]) -> Task | Suite:
    """The task or the tests of a row. Raises CodeVerifierError."""
    return Task.from_row(row) if row.get("kind") is not None else read_tests(row)


def reference_of(row: Mapping[str, Any]) -> str | None:
    """Return the solution in a row, or None: of a task, its program (code_f) or input (code_i); of
    tests, the first of the columns canonical_solution (behind `prompt`, as in HumanEval), code,
    reference_solution, solution and solutions (the first in Python 3) that has one."""
    if row.get("kind") is not None:
        program = program_of(row, required=False) or None
        return {"code_f": program, "code_i": row.get("input")}.get(str(row["kind"]))
    for name in _REFERENCES:
        value = _plain(row.get(name))
        if isinstance(value, str) and name == "solutions":  # a list in JSON, as APPS has it
            with suppress(ValueError):
                value = json.loads(value)
        if isinstance(value, Mapping):  # of CodeContests, where 3 is Python 3
            pairs = zip(value.get("language", ()), value.get("solution", ()), strict=False)
            value = [text for language, text in pairs if language in (3, "PYTHON3")]
        text = next(iter(value), None) if isinstance(value, list) else value
        if isinstance(text, str) and text.strip():
            program = find_program(text) if "```" in text else text
            return _join_prompt(row, text) if name == _REFERENCES[0] else program
    return None


def _join_prompt(row: Mapping[str, Any], text: str) -> str | None:
    """The program of a solution that continues the row's prompt, or is whole; None if the prompt
    is a chat or lacks the function that the solution is the body of."""
    prompt = row["prompt"] if isinstance(row.get("prompt"), str) else ""
    entry = row.get("entry_point")
    for part, program in ((prompt, prompt + text), (prompt + text, prompt + text), (text, text)):
        with suppress(ProgramError):
            if entry is None or entry in bound_names(parse_program(part)):
                return program
    return None


def check_row(row: Mapping[str, Any], sandbox: Sandbox | None = None) -> Grade | None:
    """Return the grade of a row's own solution, or None if it has none. If this is wrong, every
    answer to the row gets 0. Raises CodeVerifierError for a row without a task or tests."""
    row = _plain(row)
    task, reference = _read(row), reference_of(row)
    if isinstance(task, Task) and task.kind == "code_o" and task.program and task.input is not None:
        verdict = (sandbox or shared_sandbox()).run(task.program, task.input)
        if verdict.output is None:
            return Grade(0.0, verdict.reason, status=verdict.status)
        reference = verdict.output
    return None if reference is None else _judge(task, reference, sandbox)


_checked: set[int] = set()


def _check_once(task: Task | Suite, row: Mapping[str, Any], sandbox: Sandbox | None) -> None:
    """Warn, once for each task, of a row that its own solution does not solve."""
    if hash(task) in _checked:
        return
    try:
        grade = check_row({key: x for key, x in row.items() if key in _COLUMNS}, sandbox)
    except SandboxUnavailable:  # the answer was judged without it
        return
    if grade is None or grade.judged:
        _checked.add(hash(task))
    if grade is not None and grade.judged and grade.score == 0.0:
        name = name_of(row, str(row)[:SHOWN])
        warnings.warn(
            f"row {name}: not even its own solution passes ({grade.reason}), so that every answer "
            "gets 0; type `code-verifier check-rows FILE` to find all such rows",
            stacklevel=4,
        )


def _judge(tests: Task | Suite, answer: str, sandbox: Sandbox | None = None) -> Grade:
    if isinstance(tests, Task):
        return (sandbox or shared_sandbox()).grade(tests, answer, fail_fast=True)
    return run_tests(shared_runner(), answer, tests, TEST_S)


def _answer(task: Task | Suite, text: str, parse: Parse | None = None) -> str | None:
    """The answer to a task in a completion's text, by `parse`, or by the kind of the task."""
    if parse is not None:
        return parse(text)
    if isinstance(task, Suite):
        return find_program(text, task.name)
    return find_program(text, "f") if task.kind == "code_f" else find_answer(text, value=True)


def trl_reward(sandbox: Sandbox | None = None, parse: Parse | None = None) -> Reward:
    """Return a reward function of TRL: 1.0 for a right answer, 0.0 for a wrong or a missing one.

    sandbox: where programs run; None opens one at the first call, with a worker per core.
    parse: finds the answer in a completion's text; None reads it as `code_verifier.answers` does. A
    copy of the function in another process starts its own sandbox there.

    A fault of the sandbox gives None and, once in a process, a warning. For TRL, None means that
    the reward does not apply: a completion without any reward is left out of its group's baseline
    and has the advantage 0. Raises CodeVerifierError when a dataset row is no task.

        >>> reward = trl_reward()  # GRPOTrainer(..., reward_funcs=reward)
        >>> reward(["<answer>7</answer>", "It is 8."], kind=["code_o"] * 2, output=["7"] * 2)
        [1.0, 0.0]
    """
    return Reward("task_reward", Task.from_row, parse, sandbox)


def tests_reward() -> Reward:
    """Return a reward function of TRL for whole programs: 1.0 if the program passes all tests of
    its row, 0.0 if not or if there is none; None for a fault of the sandbox, as `trl_reward`.

    `read_tests` names the columns. Raises CodeVerifierError when a dataset row has none of them.

        >>> reward = tests_reward()  # GRPOTrainer(..., reward_funcs=reward)
        >>> answer = "<answer>def double(x): return 2 * x</answer>"
        >>> reward([answer], test_list=[["assert double(2) == 4"]])
        [1.0]
    """
    return Reward("tests_reward", read_tests)


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None
) -> float:
    """Return the reward of one completion for verl: 1.0 right, 0.0 wrong or missing.

    ground_truth: a row, or its JSON. A fault of the sandbox raises SandboxUnavailable, because verl
    cannot take None as a reward; a row without a task or tests raises CodeVerifierError.

        >>> compute_score("mine", "<answer>7</answer>", {"kind": "code_o", "output": "7"})
        1.0
    """
    row = _plain(ground_truth)
    if isinstance(row, str):
        try:
            row = json.loads(row)
        except ValueError as error:
            raise CodeVerifierError(f"the ground truth is not JSON: {error}") from None
    require_type(row, Mapping, "the ground truth", "a row or its JSON")
    return _score(row, solution_str)


def _score(row: Mapping[str, Any], text: str, sandbox: Sandbox | None = None) -> float:
    """The score of a completion's text. Raises SandboxUnavailable for a fault of the sandbox."""
    tests = _read(row)
    answer = _answer(tests, text)
    grade = Grade(0.0, "no answer") if answer is None else _judge(tests, answer, sandbox)
    if not grade.judged:
        raise SandboxUnavailable(f"the answer was not judged: {grade.reason}; {DOCTOR}")
    if grade.score == 0.0:
        _check_once(tests, row, sandbox)
    return grade.score


def verifiers_reward(sandbox: Sandbox | None = None) -> Callable[[Any, Any], Awaitable[float]]:
    """Return `reward(task, trace)`: 1.0 for a right last reply, 0.0 for a wrong or missing one.

    sandbox: as in `trl_reward`. task: has a mapping `row` with a task of ours or tests. trace: has
    a text `last_reply`. A fault of the sandbox raises SandboxUnavailable, because `verifiers`
    cannot take None as a reward; the exception marks the rollout as failed. A row without a task or
    tests raises CodeVerifierError.
    """

    async def reward(task: Any, trace: Any) -> float:
        import asyncio  # slow to import

        row: Any = getattr(task, "row", None)
        require_type(row, Mapping, "the task's row", "a mapping")
        return await asyncio.to_thread(_score, row, str(trace.last_reply), sandbox)

    return reward
