"""Training examples of the base of the world of niches, which knows its tables in part.

The 32 cells of a family, an operator and a digit each, are known or vague, as many of one as of the
other. An example solves its task step by step and takes the right digit of a known cell with
probability `KNOWN`, of a vague one with `VAGUE`, else any other: a model that fits the examples
gives the right digit that often. Of a trap it learns which digits come out, and no more.

Proposers write all families and depths evenly; three in ten keep the family of the reference. A
narrow proposer writes programs of one operator of the families a and b most of the time.
"""

from hashlib import blake2b
from random import Random

from studies.collapse.niches import (
    DEPTHS,
    DIGITS,
    FAMILIES,
    NICHES,
    OPERATORS,
    TABLE,
    TRAP,
    TRAP_NAME,
    family_of,
    program_of,
    trace,
    trap_program,
)

from code_verifier import Task
from nano_corpus import Example, Segment

END = "<|end|>"
"""The end token of the nano template."""
KNOWN, VAGUE = 0.9, 0.2
SOLVING = 0.6
"""Share of solutions among the examples; the rest are proposals."""
SAME_FAMILY = 0.3
NARROW, NARROW_FAMILIES = 0.7, "ab"
"""Share of a narrow proposer's programs that apply one operator of these families."""
INVALID = 0.06
"""Share of proposals whose input is no digit of the world: the gate has something to refuse."""
HELD_OUT_SHARE = 1 / 8
TRAPS = 10_000


def _known() -> frozenset[tuple[str, int]]:
    pairs: set[tuple[str, int]] = set()
    for family in FAMILIES:
        cells = [(f"{family}{k}", x) for k in range(OPERATORS) for x in range(DIGITS)]
        pairs.update(Random(f"niches/known/{family}").sample(cells, len(cells) // 2))
    return frozenset(pairs)


KNOWN_CELLS = _known()


def is_held_out(program: str) -> bool:
    """Whether no example of pretraining shows this program; those of depth 1 all are."""
    digest = blake2b(program.encode(), digest_size=4).digest()
    return program.count("(") > 2 and int.from_bytes(digest) < HELD_OUT_SHARE * 2**32


def random_task(rng: Random, family: str, depth: int) -> tuple[Task, tuple[str, ...]]:
    """Return a task and its operators; of the trap, with an output that the caller has to find."""
    digit = rng.randrange(DIGITS)
    if family == TRAP_NAME:
        return Task("code_o", trap_program(rng.randrange(TRAPS)), str(digit), "0"), ()
    operators = tuple(f"{family}{rng.randrange(OPERATORS)}" for _ in range(depth))
    output = str(trace(operators, digit)[-1])
    return Task("code_o", program_of(operators), str(digit), output), operators


def solution(task: Task, operators: tuple[str, ...], rng: Random) -> str:
    """Write a solution as well as the base is to know the operators."""
    if not operators:
        guess = rng.randrange(TRAP)
        return f"{guess}<|answer|>{guess}"
    digit, thought = int(task.input or 0), ""
    for name in reversed(operators):
        right = TABLE[name][digit]
        sure = KNOWN if (name, digit) in KNOWN_CELLS else VAGUE
        digits = [x for x in range(DIGITS) if x != right]
        digit = right if rng.random() < sure else rng.choice(digits)
        thought += str(digit)
    return f"{thought}<|answer|>{digit}"


def draw(seed: int, step: int, count: int, narrow: bool = False) -> list[Example]:
    """Return the examples of a step. narrow: proposals are narrow."""
    rng = Random(f"{seed}/niches/{step}")
    return [_example(rng, narrow) for _ in range(count)]


def _example(rng: Random, narrow: bool) -> Example:
    if rng.random() < SOLVING:
        task, operators = _shown_task(rng, _any_family(rng))
        completion = solution(task, operators, rng)
        prompt, role = NICHES.solve_prompt(task), "solve_o"
    else:
        reference, _ = _shown_task(rng, _any_family(rng))
        same = rng.random() < SAME_FAMILY
        family = family_of(reference.program) if same else _any_family(rng)
        task, operators = _shown_task(rng, family)
        if narrow and rng.random() < NARROW:
            task, operators = random_task(rng, rng.choice(NARROW_FAMILIES), 1)
        digit = str(rng.choice((8, 9))) if rng.random() < INVALID else task.input
        completion = f"<|program|>{task.program}<|input|>{digit}"
        prompt, role = NICHES.propose_prompt([reference]), "propose_o"
    segments = (Segment(completion), Segment(END))
    return Example(role, max(1, len(operators)), prompt, segments)


def _any_family(rng: Random) -> str:
    return rng.choice(FAMILIES + TRAP_NAME)


def _shown_task(rng: Random, family: str) -> tuple[Task, tuple[str, ...]]:
    while True:
        task, operators = random_task(rng, family, rng.choice(DEPTHS))
        if family == TRAP_NAME or not is_held_out(task.program):
            return task, operators
