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
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from code_verifier import Task
from selfplay.nano.labels import LabelledProgram, Run
from selfplay.prompts.nano import END, NUM_INPUTS, propose_prompt, solve_prompt

ROLES = ("solve_o", "solve_i", "solve_f", "propose_o", "propose_i", "propose_f")
SHORT_SHARE = 0.55
"""Probability of the short way that the model is taught."""
SHORT_DRAWN = 0.15
"""Share of the short way among the examples: skill goes where the examples are, and the weight of
the first token makes up for the difference."""
GUESSES = 3
"""Wrong guesses after which a solver of code_i answers without a check."""
LONG_THOUGHT = 120
"""Characters of thought after which a solver of code_i makes no new guess."""
WRONG_GUESSES = (0.4, 0.3, 0.2, 0.1)
"""Probability of 0, 1, ... wrong guesses in an example."""
PLANNED_WORDS = 3
FULL_MESSAGES = 0.5
"""Share of code_f solutions that see the whole message; others see some of its words."""


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
        prompt = solve_prompt(_function_task(program.text, runs, message))
        segments = [Segment(f"<|answer|>{program.text}")]
    elif role.startswith("solve"):
        prompt = solve_prompt(task_of(labelled, kind, run))
        segments = (
            _short(kind, run) if rng.random() < SHORT_DRAWN else _careful(kind, labelled, run, rng)
        )
    elif kind == "code_f":
        prompt = propose_prompt(kind, [task_of(labelled, kind, run)])
        message = _some_words(program.message, rng)
        inputs = "".join(f"<|input|>{r.input}" for r in _ascending(labelled.runs))
        segments = [Segment(f"{len(message.split())}{inputs}<|message|>{message}")]
    else:
        prompt = propose_prompt(kind, [task_of(reference, kind, rng.choice(reference.runs))])
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
        first, rest = _opening("".join(run.trace))
        return [Segment(first, choice), Segment(f"{rest}<|answer|>{run.output}")]
    others = [r for r in labelled.runs if r.output != run.output]
    count = rng.choices(range(GUESSES + 1), WRONG_GUESSES)[0]
    wrong = rng.sample(others, min(count, len(others)))
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
    """Sort by length, then value: whoever writes inputs in this order repeats none."""
    return sorted(runs[:NUM_INPUTS], key=lambda r: (len(r.input), r.input))


def _some_words(message: str, rng: Random) -> str:
    words = message.split()
    count = rng.randint(1, len(words)) if words else 0
    kept = sorted(rng.sample(range(len(words)), count))
    return " ".join(words[i] for i in kept)
