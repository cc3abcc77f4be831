"""The world of niches: hidden operators that the real sandbox knows, and its tasks."""

from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from studies.collapse import niches
from studies.collapse.niches import (
    DEPTHS,
    DIGITS,
    FAMILIES,
    LEAKED,
    NICHES,
    NO_TRAP,
    TABLE,
    TRAP,
    Niches,
    depth_of,
    family_of,
    prelude,
    program_of,
    trace,
    trap_program,
)

from code_verifier import Limits, Proposal, Sandbox, Task, read_rows

COLLAPSE = Path(niches.__file__).parent


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(limits=Limits(wall_s=60)) as opened:
        yield opened


def judged(program, given, sandbox):
    return NICHES.validate(Proposal("code_o", program, given), sandbox)


def test_the_sandbox_knows_what_the_operators_do_and_no_prompt_says_it(sandbox):
    rng = Random(1)
    for family, depth in product(FAMILIES, DEPTHS):
        operators = tuple(f"{family}{rng.randrange(4)}" for _ in range(depth))
        digit = rng.randrange(DIGITS)
        program = program_of(operators)
        task = judged(program, str(digit), sandbox).task
        assert task is not None
        assert task.output == str(trace(operators, digit)[-1])
        assert (task.program, family_of(program), depth_of(program)) == (program, family, depth)
        for prompt in (NICHES.solve_prompt(task), NICHES.propose_prompt([task])):
            assert "[" not in prompt
        assert sandbox.grade(task, task.output).score == 1.0
    assert all(sorted(row) == list(range(DIGITS)) for row in TABLE.values())
    assert len(set(TABLE.values())) == len(TABLE)


@pytest.mark.parametrize(
    ("program", "given"), [(program_of(("a1",)), "8"), (program_of(("k1",)), "3")]
)
def test_what_the_world_does_not_have_is_refused(program, given, sandbox):
    assert judged(program, given, sandbox).status == "exception"


def test_a_trap_is_one_of_a_few_digits_and_no_pattern_tells_which(sandbox):
    assert judged(trap_program(4071), "3", sandbox).ok
    found: dict[str, object] = {}
    exec(prelude(), found)
    z = found["z"]
    outputs = [[z(n, x) for x in range(DIGITS)] for n in range(2000)]
    counts = Counter(digit for row in outputs for digit in row)
    assert set(counts) == set(range(TRAP))
    assert min(counts.values()) > 0.9 * 16_000 / TRAP
    # Neither the same number nor the same digit tells more than luck.
    same = [row[x] == row[x + 1] for row in outputs for x in range(DIGITS - 1)]
    nearby = [a[x] == b[x] for a, b in pairwise(outputs) for x in (0, 5)]
    assert sum(same) / len(same) == pytest.approx(1 / TRAP, abs=0.02)
    assert sum(nearby) / len(nearby) == pytest.approx(1 / TRAP, abs=0.03)


def test_families_are_told_by_the_operators():
    assert family_of(trap_program(7)) == "z"
    assert family_of(program_of(("a1", "b2"))) == "mixed"
    assert family_of("def f(x):\n    return z(1, a1(x))") == "z"
    assert family_of("def f(x):\n    return x") == ""


def test_held_out_tasks_are_even_over_families_and_right(sandbox):
    rows = [row for _, row in read_rows(COLLAPSE / "held_out.jsonl")]
    assert Counter(row["id"].split("/")[1] for row in rows) == dict.fromkeys(FAMILIES, 48)
    assert Counter(row["level"] for row in rows) == dict.fromkeys(DEPTHS, 96)
    for row in rows[::13]:
        task = Task.from_row(row)
        assert family_of(task.program) == task.id.split("/")[1]
        assert row["prompt"] == NICHES.solve_prompt(task)
        verdict = judged(task.program, task.input, sandbox)
        assert verdict.output is None
        assert verdict.task.output == task.output
        assert depth_of(task.program) == row["level"]


def test_a_world_without_a_trap_refuses_it(sandbox):
    kind = NO_TRAP
    proposal = Proposal("code_o", trap_program(4071), "3")
    assert kind.validate(proposal, sandbox).status == "exception"
    assert kind.validate(Proposal("code_o", program_of(("a1",)), "3"), sandbox).ok


def test_a_gate_leaks_as_often_as_it_says_and_the_same_text_always(sandbox):
    kind = Niches(leak=0.25)
    proposals = [Proposal("code_o", program_of((f"k{i}",)), "3") for i in range(60)]
    verdicts = [kind.validate(p, sandbox) for p in proposals]
    leaked = [v for v in verdicts if v.ok]
    assert 8 < len(leaked) < 24
    assert {v.reason for v in leaked} == {LEAKED}
    assert len({v.task.output for v in leaked}) > DIGITS // 2
    assert sandbox.grade(leaked[0].task, leaked[0].task.output).score == 1.0
    again = [kind.validate(p, sandbox) for p in proposals[:9]]
    assert [v.task for v in again] == [v.task for v in verdicts[:9]]
