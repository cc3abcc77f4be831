"""The acceptance rule: equal canonical output of several executions in fresh processes."""

from collections.abc import Iterator, Sequence

from code_verifier.sandbox.execution import Executor, Program
from code_verifier.tasks.outcomes import Status, Verdict

UNSTABLE_RUNS, HASHING_RUNS = 8, 16
_SETTLED = (Status.OK, Status.EXCEPTION, Status.NOT_LITERAL, Status.TOO_LONG)
_INCONCLUSIVE = (Status.SANDBOX_ERROR, Status.TIMEOUT, Status.MEMORY)


def verdicts(
    executor: Executor, text: str, inputs: Sequence[str], runs: int, raise_runs: bool
) -> Iterator[Verdict]:
    """The verdict of every input, when asked for: policy, then equal outputs of all executions.
    raise_runs: give a program whose text suggests that its result is unstable more executions."""
    program, arguments = executor.examine(text, inputs)
    if isinstance(program, Verdict):
        yield from [program] * len(inputs)
        return
    if raise_runs:
        runs = max(runs, UNSTABLE_RUNS * program.unstable, HASHING_RUNS * program.hashing)
    data = [given for given in arguments if isinstance(given, bytes)]
    batched: Iterator[Verdict | None] = iter(())
    if len(data) > 1 and program.separable:
        batched = iter(_run_batched(executor, program, data, runs))
    for given in arguments:
        if isinstance(given, Verdict):
            yield given
        else:
            yield next(batched, None) or _run_isolated(executor, program, given, runs)


def _run_batched(
    executor: Executor, program: Program, data: list[bytes], runs: int
) -> list[Verdict | None]:
    """All inputs in one process for each run; None where that does not settle the verdict."""
    rounds = []
    for index in range(runs):
        found, whole = executor.execute(program, data, index)
        if whole:
            return []
        rounds.append(found)
    settled: list[Verdict | None] = []
    for first, *others in zip(*rounds, strict=True):
        same = all((o.status, o.output) == (first.status, first.output) for o in others)
        verdict = None
        if same and first.status in _SETTLED:
            wall_ms = max(each.wall_ms for each in (first, *others))
            used = runs if first.ok else 1
            verdict = Verdict(first.status, first.output, first.reason, wall_ms, used)
        settled.append(verdict)
    return settled


def _run_isolated(executor: Executor, program: Program, given: bytes, runs: int) -> Verdict:
    first = executor.execute(program, [given], 0)[0][0]
    if not first.ok:
        return first
    wall_ms = first.wall_ms
    for index in range(1, runs):
        verdict = executor.execute(program, [given], index)[0][0]
        wall_ms = max(wall_ms, verdict.wall_ms)
        if verdict.ok and verdict.output == first.output:
            continue
        if verdict.status in _INCONCLUSIVE:
            return Verdict(verdict.status, None, verdict.reason, wall_ms, index + 1)
        other = verdict.output if verdict.ok else f"{verdict.status} ({verdict.reason})"
        reason = f"gave {_short(first.output)}, then {_short(other)}"
        return Verdict(Status.NONDETERMINISTIC, None, reason, wall_ms, index + 1)
    return Verdict(Status.OK, first.output, "", wall_ms, runs)


def _short(text: str | None, width: int = 80) -> str:
    text = text or ""
    return text if len(text) <= width else f"{text[:width]}..."
