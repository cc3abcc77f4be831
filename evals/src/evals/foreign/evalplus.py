"""evalplus: samples as JSON Lines, as a folder of programs, and in its results file."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from evals.errors import EvalsError
from evals.foreign.fields import claims, cut, identifier, optional_text
from evals.foreign.sample import ForeignSample
from evals.sources.json_rows import kind, read_bytes
from evals.sources.source import Row

_TEXTS = ("task_id", "solution", "completion")


def is_samples(row: Row) -> bool:
    """Whether it looks like a row of `evalplus.codegen`."""
    return "task_id" in row and ("solution" in row or "completion" in row)


def read_samples(rows: Sequence[Row], place: str) -> Iterator[ForeignSample]:
    """Rows {"task_id", "solution"} (whole programs) or {"task_id", "completion"}."""
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        here = f"{place}, row {number}"
        problem = identifier(row, "task_id", here)
        solution, completion = (optional_text(row, name, here) for name in _TEXTS[1:])
        if solution is None and completion is None:
            raise EvalsError(f"{here}: neither solution nor completion; found {', '.join(row)}")
        yield ForeignSample(
            id=problem,
            sample=seen[problem],
            solution=solution,
            completion=completion,
            truncated=cut(row),
            claims=claims(row, _TEXTS),
        )
        seen[problem] += 1


def is_results(rows: Sequence[Row]) -> bool:
    """Whether it looks like the `_eval_results.json` of `evalplus.evaluate`."""
    return len(rows) == 1 and isinstance(rows[0].get("eval"), dict)


def read_results(rows: Sequence[Row], place: str) -> Iterator[ForeignSample]:
    """{"eval": {task id: [{"solution", "base_status", "plus_status", ...}]}}."""
    for problem, found in rows[0]["eval"].items():
        here = f"{place}, {problem}"
        if not isinstance(found, list):
            raise EvalsError(
                f"{here}: {kind(found)} without solutions (an early evalplus); give the samples "
                "file that was evaluated"
            )
        for number, row in enumerate(found):
            solution = optional_text(row, "solution", here) if isinstance(row, dict) else None
            if solution is None:
                raise EvalsError(f"{here}: sample {number} has no solution")
            yield ForeignSample(problem, number, solution=solution, claims=claims(row, _TEXTS))


def read_folder(folder: Path) -> tuple[list[ForeignSample], list[str]]:
    """TASK_ID/N.py, `_` for the `/` of an id; and notes on what was passed over."""
    samples: list[ForeignSample] = []
    passed = []
    for place in sorted(folder.iterdir()):
        programs = {}
        for path in sorted(place.iterdir()) if place.is_dir() else [place]:
            if place.is_dir() and path.suffix == ".py" and path.stem.isdecimal():
                programs[int(path.stem)] = path
            else:
                passed.append(str(path.relative_to(folder)))
        for number, path in sorted(programs.items()):
            try:
                solution = read_bytes(path).decode("utf-8")
            except UnicodeDecodeError:
                raise EvalsError(f"{path} is not UTF-8 text") from None
            samples.append(ForeignSample(place.name.replace("_", "/"), number, solution=solution))
    if not samples:
        raise EvalsError(
            f"{folder} holds no TASK_ID/N.py; expected evalplus' folder of programs, or name a file"
        )
    more = ", ..." if len(passed) > 3 else ""
    return samples, [f"passed over: {', '.join(passed[:3])}{more}"] if passed else []
