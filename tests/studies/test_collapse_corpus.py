"""Examples of the world of niches: what the base is to know, and what its proposers write."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from studies.collapse.corpus import (
    KNOWN,
    KNOWN_CELLS,
    NARROW,
    NARROW_FAMILIES,
    VAGUE,
    draw,
    is_held_out,
    random_task,
    solution,
)
from studies.collapse.niches import (
    DEPTHS,
    FAMILIES,
    NICHES,
    OPERATORS,
    TABLE,
    depth_of,
    family_of,
    program_of,
)


@pytest.mark.parametrize(("cells", "wanted"), [("known", KNOWN), ("vague", VAGUE)])
def test_solutions_are_right_as_often_as_the_base_is_to_know_the_cell(cells, wanted):
    rng = Random(3)
    every = {(f"{f}{k}", x) for f in FAMILIES for k in range(OPERATORS) for x in range(8)}
    chosen = KNOWN_CELLS if cells == "known" else every - KNOWN_CELLS
    right = []
    for name, digit in sorted(chosen):
        task, _ = random_task(rng, name[0], 1)
        task = replace(task, program=program_of((name,)), input=str(digit))
        for _ in range(20):
            text = solution(task, (name,), rng)
            assert NICHES.parse_answer(task, text) == text[0]
            right.append(text[0] == str(TABLE[name][digit]))
    assert sum(right) / len(right) == pytest.approx(wanted, abs=0.03)


def test_families_are_written_evenly_and_no_held_out_program_is():
    examples = draw(1, 0, 6000)
    proposals = [e.completion for e in examples if e.role == "propose_o"]
    counts = Counter(family_of(text.partition("<|input|>")[0]) for text in proposals)
    assert set(counts) == {*FAMILIES, "z"}
    assert max(counts.values()) < 1.4 * min(counts.values())
    shown = {e.prompt.partition("|>")[2].partition("<|input|>")[0] for e in examples}
    assert not any(map(is_held_out, shown))
    assert len({len(e.completion) for e in examples}) > len(DEPTHS)


def test_a_narrow_proposer_writes_mostly_easy_tasks_of_two_families():
    programs = [
        e.completion.removeprefix("<|program|>").partition("<|input|>")[0]
        for e in draw(1, 0, 6000, narrow=True)
        if e.role == "propose_o"
    ]
    easy = [p for p in programs if family_of(p) in NARROW_FAMILIES and depth_of(p) == 1]
    ever = (1 - NARROW) * len(NARROW_FAMILIES) / 9 / len(DEPTHS)
    assert len(easy) / len(programs) == pytest.approx(NARROW + ever, abs=0.04)
    assert {family_of(program) for program in programs} == {*FAMILIES, "z"}
