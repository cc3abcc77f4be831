"""The pretraining corpus: labelled programs on disk, and examples drawn from it by (seed, step)."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from selfplay.nano.examples import ROLES, Example, example
from selfplay.nano.labels import LabelledProgram, Run, label, labelling_sandbox
from selfplay.nano.programs import LEVELS, Program, random_program

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
"""Easy first, then everything, then back to basics while the learning rate falls."""
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
    done = whole // CHUNK * CHUNK
    _keep_lines(partial, done)
    with labelling_sandbox(workers) as sandbox, partial.open("a") as out:
        while done < size:
            rng = Random(f"{seed}/corpus/{done}")
            labelled = label(_programs(rng), sandbox)
            rows = [next(labelled) for _ in range(CHUNK)]
            out.write("".join(json.dumps(_row(r)) + "\n" for r in rows))
            out.flush()
            done += CHUNK
            report(min(done, size), size)
    os.replace(partial, path)


def read_corpus(path: Path) -> list[LabelledProgram]:
    """Read the labelled programs that `build_corpus` wrote."""
    with path.open() as lines:
        return [_labelled(json.loads(line)) for line in lines]


class Curriculum:
    """Draws examples of every role, easy programs first; held-out programs are never drawn."""

    def __init__(self, corpus: list[LabelledProgram], seed: int) -> None:
        kept = [row for row in corpus if not row.program.held_out]
        self.levels = {lv: [r for r in kept if r.program.level == lv] for lv in LEVELS}
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
            shown = level if rng.random() < SAME_LEVEL else rng.choice(LEVELS)
            labelled = rng.choice(self.levels[level])
            drawn.append(example(role, labelled, rng.choice(self.levels[shown]), rng))
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
            kept = [line for _, line in zip(range(count), lines, strict=False)]
        path.write_text("".join(kept))


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
