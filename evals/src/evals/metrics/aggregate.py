"""Averages over benchmarks, and the paper's aggregate.

Absolute Zero's tables (arXiv:2505.03335, table 1), which PopuLoRA's follow: the code average is the
plain mean over code benchmarks, the math average that over math benchmarks, and the total is the
mean of the two averages, so that three code benchmarks weigh as much as seven of math. As a check:
their Coder-7B has 61.6 and 39.1, and a total of 50.4.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.errors import EvalsError
from evals.metrics.scoreboard import Column

CODE = ("humaneval_plus", "mbpp_plus", "livecodebench")
MATH = ("aime24", "aime25", "amc23", "math500", "olympiadbench", "minerva_math", "gsm8k")
"""PopuLoRA's ten benchmarks; Absolute Zero's are the same without gsm8k."""


def average(columns: Sequence[Column]) -> Column | None:
    """The plain mean over benchmarks, for the members that all of them have.

    Benchmarks share no problems, so their errors add in squares, and replicate i of the mean is
    the mean of their replicates i. None when no member is in all columns, or there is no column.
    Raises EvalsError for columns with other numbers of replicates.
    """
    names = [name for name in (columns[0].members if columns else ()) if _everywhere(name, columns)]
    if not names:
        return None
    if len({len(column.replicates) for column in columns}) > 1:
        raise EvalsError("averaged columns differ in their bootstrap draws; use one number")
    places = [[column.members.index(name) for name in names] for column in columns]
    taken = list(zip(columns, places, strict=True))
    count = len(columns)

    def total(field: str) -> tuple[int, ...]:
        rows = ([getattr(column, field)[i] for i in at] for column, at in taken)
        return tuple(sum(values) for values in zip(*rows, strict=True))

    worth = np.array([[1 / max(1, column.trials[i]) for i in at] for column, at in taken])
    return Column(
        members=tuple(names),
        values=np.mean([column.values[at] for column, at in taken], axis=0),
        errors=np.sqrt(np.sum([column.errors[at] ** 2 for column, at in taken], axis=0)) / count,
        replicates=np.mean([column.replicates[:, at] for column, at in taken], axis=0),
        graded=total("graded"),
        ungraded=total("ungraded"),
        unjudged=total("unjudged"),
        trials=tuple(int(value) for value in count**2 / worth.sum(axis=0)),
        uneven=any(column.uneven for column in columns),
    )


def aggregates(columns: Mapping[str, Column]) -> dict[str, Column | None]:
    """`code`, `math` and `total` of the benchmarks that there are.

    Averages over part of a group cannot be compared with the paper's: see `missing`. The total is
    None without both groups.
    """
    code = average([columns[name] for name in CODE if name in columns])
    math = average([columns[name] for name in MATH if name in columns])
    return {"code": code, "math": math, "total": average([code, math]) if code and math else None}


def missing(columns: Mapping[str, Column]) -> dict[str, tuple[str, ...]]:
    """The benchmarks of `code` and `math` that are not there."""
    groups = {"code": CODE, "math": MATH}
    return {
        group: tuple(name for name in names if name not in columns)
        for group, names in groups.items()
    }


def _everywhere(name: str, columns: Sequence[Column]) -> bool:
    return all(name in column.members for column in columns)
