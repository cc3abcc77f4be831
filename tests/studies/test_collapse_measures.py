"""What teachers wrote: every number against one that is known from how the rows were made."""

from math import log2

import pytest
from json_lines import write_rows
from studies.collapse.measures import written
from studies.collapse.niches import FAMILIES, program_of, trap_program
from studies.lab.measures import leaks

from selfplay import RunRecord


class Run(RunRecord):
    """A run of which only the last step is known."""

    last = 60


def row(step, teacher, program, **more):
    found = {"id": "x", "step": step, "teacher": teacher, "kind": "code_o", "program": program}
    return found | {"input": "3", "status": "ok", "solve_rate": 0.5} | more


def run(tmp_path, rows):
    write_rows(tmp_path / "tasks.jsonl", rows)
    kinds = ["studies.collapse.niches:NICHES#0f"]
    return written(Run(tmp_path, {"rollout": {"kinds": kinds}}, ()))


def both(steps):
    """In each step t0 writes eight different traps, t1 one program of each family."""
    for step in steps:
        for i, family in enumerate(FAMILIES):
            yield row(step, "t0", trap_program(100 * step + i))
            yield row(step, "t1", program_of((f"{family}1",)))


def test_numbers_are_of_the_last_third(tmp_path):
    early = [row(step, "t1", program_of(("a1", "a2"))) for step in range(1, 41)]
    refused = [row(50, "t1", None, status="form")] * 80
    leaked = [row(60, "t1", program_of(("k1",)), reason="leaked")] * 20
    found = run(tmp_path, [*early, *both(range(41, 61)), *refused, *leaked])
    assert leaks(Run(tmp_path, {}, ())) == {20: 0.0, 40: 0.0, 60: pytest.approx(20 / 340)}
    assert found.numbers["valid proposals"] == pytest.approx(340 / 420)
    assert found.numbers["traps"] == pytest.approx(160 / 340)
    assert found.numbers["leaked"] == pytest.approx(20 / 340)
    assert found.numbers["families extinct"] == 0.0
    assert found.traps == {20: 0.0, 40: 0.0, 60: pytest.approx(160 / 340)}
    assert found.numbers["until most are traps"] == 60.0


def test_duplicates_and_entropy_are_of_a_teacher_and_of_all(tmp_path):
    found = run(tmp_path, both(range(41, 61)))
    assert found.numbers["duplicates, one teacher"] == pytest.approx((0.0 + 152 / 160) / 2)
    assert found.numbers["duplicates, all teachers"] == pytest.approx(152 / 320)
    assert found.numbers["entropy, one teacher"] == pytest.approx((log2(160) + 3) / 2)
    assert found.numbers["entropy, all teachers"] == pytest.approx(1 + (log2(160) + 3) / 2)


def test_teachers_that_share_no_family_are_as_far_apart_as_can_be(tmp_path):
    assert run(tmp_path, both(range(41, 61))).numbers.get("divergence") == pytest.approx(1.0)
    alike = [row(50, f"t{i % 2}", program_of(("a1",))) for i in range(200)]
    assert run(tmp_path, alike).numbers.get("divergence") == 0.0
    assert run(tmp_path, alike[:198:2]).numbers.get("divergence") is None


def test_a_family_that_nobody_writes_is_extinct_and_a_trap_is_seen_when_it_closes(tmp_path):
    traps = [row(step, "t0", trap_program(step)) for step in range(21, 61) for _ in range(9)]
    found = run(tmp_path, [row(1, "t0", program_of(("a1",))), *traps])
    assert found.numbers["families extinct"] == 8.0
    assert found.numbers["until most are traps"] == 40.0


def test_a_run_that_writes_nothing_more_has_no_numbers(tmp_path):
    found = run(tmp_path, [row(60, "t0", None, status="form")] * 3)
    assert found.numbers["valid proposals"] == 0.0
    assert "traps" not in found.numbers
    assert found.numbers["entropy, one teacher"] is None
    assert found.examples == []
