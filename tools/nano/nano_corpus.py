"""Training examples of the nano model: six roles, each a prompt and the text that should follow.

Solvers of code_o and code_i learn two ways; which is taken is one choice, of the first token. The
short way answers at once. The careful way of code_o runs the program: `x=[3, 1];c=3;c=4;:4 + 1;`
lists the arguments, the changed variables and tests in order of execution, and the returned
expression with values put in. The careful way of code_i guesses an input, runs it the same way,
writes what comes out, `=5`, and compares: where that is the wanted output the guess is the answer,
else `!` and another guess, until `GUESSES` were wrong or `LONG_THOUGHT` characters are written;
then it answers without a check.

Proposers plan. For code_o and code_i the plan is the program's level, a digit, and up to
`PLANNED_WORDS` words for its operations; for code_f it is how many words the message will have.

The corpus is labelled programs on disk; examples are drawn from it by (seed, step).
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from code_verifier import Task
from nano_labels import LabelledProgram, Run, label, labelling_sandbox
from nano_language import LEVELS, Program, random_program
from selfplay.tasks.nano import END, NUM_INPUTS
from selfplay.tasks.template import NANO

ROLES = ("solve_o", "solve_i", "solve_f", "propose_o", "propose_i", "propose_f")
# The short way: its probability as taught, and its share among the examples. Skill goes
# where the examples are, and the weight of the first token makes up for the difference.
SHORT_SHARE, SHORT_DRAWN = 0.55, 0.15
# Of code_i: wrong guesses, or characters of thought, after which a solver makes no new guess; and
# the probability of 0, 1, ... wrong guesses in an example.
GUESSES, LONG_THOUGHT = 3, 120
WRONG_GUESSES = (0.4, 0.3, 0.2, 0.1)
PLANNED_WORDS = 3
# Share of code_f solutions that see the whole message; others see some of its words.
FULL_MESSAGES = 0.5


class Segment(NamedTuple):
    """A stretch of a completion and the weight of its tokens in the loss."""

    text: str
    weight: float = 1.0


@dataclass(frozen=True)
class Example:
    """A prompt and its completion, which alone carries loss."""

    role: str
    level: int
    prompt: str
    segments: tuple[Segment, ...]

    @property
    def completion(self) -> str:
        """The whole text after the prompt."""
        return "".join(segment.text for segment in self.segments)


def task_of(labelled: LabelledProgram, kind: str, run: Run) -> Task:
    """Return the task of this kind that one run (or, for code_f, all runs) of a program makes."""
    program = labelled.program
    if kind == "code_f":
        return _function_task(program.text, labelled.runs, program.message)
    return Task(kind=kind, program=program.text, input=run.input, output=run.output)


def example(
    role: str, labelled: LabelledProgram, reference: LabelledProgram, rng: Random
) -> Example:
    """Write one example; `reference` is the program shown to a proposer of code_o and code_i."""
    run = rng.choice(labelled.runs)
    program = labelled.program
    kind = f"code_{role[-1]}"
    segments: list[Segment]
    if role == "solve_f":
        runs = _ascending(labelled.runs) if rng.random() < 0.5 else labelled.runs
        full = rng.random() < FULL_MESSAGES
        message = program.message if full else _some_words(program.message, rng)
        prompt = NANO.solve_prompt(_function_task(program.text, runs, message))
        segments = [Segment(f"<|answer|>{program.text}")]
    elif role.startswith("solve"):
        prompt = NANO.solve_prompt(task_of(labelled, kind, run))
        segments = (
            _short(kind, run) if rng.random() < SHORT_DRAWN else _careful(kind, labelled, run, rng)
        )
    elif kind == "code_f":
        prompt = NANO.propose_prompt(kind, [task_of(labelled, kind, run)])
        message = _some_words(program.message, rng)
        inputs = "".join(f"<|input|>{r.input}" for r in _ascending(labelled.runs))
        segments = [Segment(f"{len(message.split())}{inputs}<|message|>{message}")]
    else:
        prompt = NANO.propose_prompt(kind, [task_of(reference, kind, rng.choice(reference.runs))])
        words = " ".join(program.message.split()[:PLANNED_WORDS])
        plan = f"{program.level} {words}"
        segments = [Segment(f"{plan}<|program|>{program.text}<|input|>{run.input}")]
    return Example(role, program.level, prompt, (*segments, Segment(END)))


def _short(kind: str, run: Run) -> list[Segment]:
    answer = run.output if kind == "code_o" else run.input
    return [Segment("<|answer|>", SHORT_SHARE / SHORT_DRAWN), Segment(answer)]


def _careful(kind: str, labelled: LabelledProgram, run: Run, rng: Random) -> list[Segment]:
    arguments = len(labelled.program.parameters)
    choice = (1 - SHORT_SHARE) / (1 - SHORT_DRAWN)
    if kind == "code_o":
        first, tail = _opening("".join(run.trace))
        return [Segment(first, choice), Segment(f"{tail}<|answer|>{run.output}")]
    candidates = [r for r in labelled.runs if r.output != run.output]
    count = rng.choices(range(GUESSES + 1), WRONG_GUESSES)[0]
    wrong = rng.sample(candidates, min(count, len(candidates)))
    segments: list[Segment] = []
    for guess in [*wrong, run][:GUESSES]:
        if sum(len(s.text) for s in segments) > LONG_THOUGHT:
            break
        right = guess is run
        guessed, ran = guess.trace[:arguments], guess.trace[arguments:]
        first, values = _opening("".join(guessed))
        # A wrong guess is only what the solver looks at: the model does not learn to make it.
        segments += [
            Segment(first, 1.0 if segments else choice),
            Segment(values, float(right)),
            Segment("".join(ran) + f"={guess.output}" + ("" if right else "!")),
        ]
    return [*segments, Segment(f"<|answer|>{run.input}")]


def _opening(states: str) -> tuple[str, str]:
    """Cut the first token, a name with its `=`, from the rest."""
    return states[:2], states[2:]


def _function_task(program: str, runs: Sequence[Run], message: str) -> Task:
    return Task(
        kind="code_f",
        program=program,
        inputs=tuple(r.input for r in runs[:NUM_INPUTS]),
        outputs=tuple(r.output for r in runs[:NUM_INPUTS]),
        message=message,
        visible=NUM_INPUTS // 2,
    )


def _ascending(runs: Sequence[Run]) -> list[Run]:
    """Sort by length, then value: inputs written in this order do not repeat."""
    return sorted(runs[:NUM_INPUTS], key=lambda r: (len(r.input), r.input))


def _some_words(message: str, rng: Random) -> str:
    words = message.split()
    count = rng.randint(1, len(words)) if words else 0
    places = sorted(rng.sample(range(len(words)), count))
    return " ".join(words[i] for i in places)


LEVEL_SHARES = (0.1, 0.25, 0.33, 0.32)
"""Share of each level among the labelled programs."""


@dataclass(frozen=True)
class Stage:
    """What the examples are made of at one point of the training, as shares that sum to 1."""

    progress: float
    """Share of the steps done at this point; between two points shares change linearly."""
    levels: tuple[float, ...]
    """Share of each of `LEVELS`."""
    roles: tuple[float, ...]
    """Share of each of `ROLES`."""


_EVEN = (0.3, 0.3, 0.18, 0.07, 0.07, 0.08)
_SOLVING = (0.31, 0.31, 0.19, 0.06, 0.06, 0.07)
SAME_LEVEL = 0.3
"""Share of proposals of code_o and code_i that keep the level of the reference; others, any."""
CURRICULUM = (
    Stage(0.0, (0.6, 0.3, 0.1, 0.0), _EVEN),
    Stage(0.35, (0.2, 0.28, 0.28, 0.24), _EVEN),
    Stage(0.6, (0.2, 0.28, 0.28, 0.24), _EVEN),
    Stage(0.65, (0.26, 0.28, 0.27, 0.19), _SOLVING),
    Stage(1.0, (0.26, 0.28, 0.27, 0.19), _SOLVING),
)
"""Easy first, then everything, then the basics again while the learning rate falls."""
CHUNK = 2000


def build_corpus(
    path: Path, size: int, seed: int, workers: int, report: Callable[[int, int], None]
) -> None:
    """Write `size` labelled programs as JSON Lines; continues a partial file chunk by chunk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    if path.exists():
        return
    whole = partial.read_bytes().count(b"\n") if partial.exists() else 0
    count = whole // CHUNK * CHUNK
    _keep_lines(partial, count)
    with labelling_sandbox(workers) as sandbox, partial.open("a") as out:
        while count < size:
            rng = Random(f"{seed}/corpus/{count}")
            labelled = label(_programs(rng), sandbox)
            rows = [next(labelled) for _ in range(CHUNK)]
            out.write("".join(json.dumps(_row(r)) + "\n" for r in rows))
            out.flush()
            count += CHUNK
            report(min(count, size), size)
    os.replace(partial, path)


def read_corpus(path: Path) -> list[LabelledProgram]:
    """Read the labelled programs that `build_corpus` wrote."""
    with path.open() as lines:
        return [_labelled(json.loads(line)) for line in lines]


class Curriculum:
    """Draws examples of every role, easy programs first; held-out programs are never drawn."""

    def __init__(self, corpus: list[LabelledProgram], seed: int) -> None:
        rows = [row for row in corpus if not row.program.held_out]
        self.levels = {lv: [r for r in rows if r.program.level == lv] for lv in LEVELS}
        self.seed = seed

    def draw(self, step: int, count: int, progress: float) -> list[Example]:
        """Return `count` examples for a step; `progress` in [0, 1] places it in the curriculum."""
        rng = Random(f"{self.seed}/examples/{step}")
        stage = stage_at(progress)
        mix = stage.levels
        drawn = []
        for role in rng.choices(ROLES, stage.roles, k=count):
            shares = (0.25,) * len(LEVELS) if role in ("propose_o", "propose_i") else mix
            level = rng.choices(LEVELS, shares)[0]
            source = level if rng.random() < SAME_LEVEL else rng.choice(LEVELS)
            labelled = rng.choice(self.levels[level])
            drawn.append(example(role, labelled, rng.choice(self.levels[source]), rng))
        return drawn


def stage_at(progress: float) -> Stage:
    """Return the mix of examples at a point of the training."""
    after = next((i for i, s in enumerate(CURRICULUM) if s.progress > progress), None)
    if after is None:
        return CURRICULUM[-1]
    low, high = CURRICULUM[after - 1], CURRICULUM[after]
    t = (progress - low.progress) / (high.progress - low.progress)

    def between(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(x + (y - x) * t for x, y in zip(a, b, strict=True))

    return Stage(progress, between(low.levels, high.levels), between(low.roles, high.roles))


def _programs(rng: Random) -> Iterator[Program]:
    while True:
        yield random_program(rng, rng.choices(LEVELS, LEVEL_SHARES)[0])


def _keep_lines(path: Path, count: int) -> None:
    if path.exists():
        with path.open() as lines:
            head = [line for _, line in zip(range(count), lines, strict=False)]
        path.write_text("".join(head))


def _row(labelled: LabelledProgram) -> dict[str, object]:
    row = asdict(labelled.program)
    del row["traced"], row["inputs"]
    return row | {"runs": [[r.input, r.output, list(r.trace)] for r in labelled.runs]}


def _labelled(row: dict[str, object]) -> LabelledProgram:
    runs = row["runs"]
    assert isinstance(runs, list)
    program = Program(
        text=str(row["text"]),
        traced="",
        level=int(str(row["level"])),
        parameters=tuple(row["parameters"]),  # type: ignore[arg-type]
        inputs=(),
        message=str(row["message"]),
    )
    return LabelledProgram(program, tuple(Run(i, o, tuple(t)) for i, o, t in runs))
