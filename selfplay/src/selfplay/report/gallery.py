"""A choice of tasks at chosen steps, small enough for one page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from league.drawing.frame import environment
from selfplay.records.row_file import read_rows
from selfplay.records.task_row import TaskRow
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.shown import Shown
from selfplay.report.words import clip, figure

ACCEPTED = 4
"""Accepted tasks shown of a step and kind, spread over rho."""
REJECTED = 2
"""Rejected proposals shown of a step and kind, of different status where possible."""
MOST_BYTES = 1_200_000
"""Bytes of all cards of a page together, at most."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A task and its place among those of its step and kind."""

    task: TaskRow
    rank: int


def gallery_steps(run: Run, wanted: Sequence[int] = ()) -> list[int]:
    """Return the wanted steps that the run has, or its first, middle and last."""
    steps = [step.step for step in run.steps]
    found = sorted(set(wanted) & set(steps))
    return found or sorted({steps[0], steps[len(steps) // 2], steps[-1]})


def gallery(
    runs: Sequence[Run], wanted: Sequence[int] = (), most_bytes: int = MOST_BYTES
) -> tuple[list[Markup], int]:
    """Return the cards of all runs, and how many more did not fit."""
    cards, left_out = [], 0
    for run in runs:
        steps = set(gallery_steps(run, wanted))
        rows = read_rows(run.directory / "tasks.jsonl", TaskRow)
        chosen = choose(row for row in rows if row.step in steps)
        shown = Shown(run, [c.task for c in chosen])
        made, skipped = _within_budget(run, chosen, shown, most_bytes // len(runs))
        cards += made
        left_out += skipped
    return cards, left_out


def task_card(task: TaskRow, run: str, shown: Shown) -> Markup:
    """Return the card of a task, from what its teacher was shown to what both were moved by.

    It is marked with run, step, kind, members and verdict for the page's selector.
    """
    template = environment("selfplay").get_template("card.html")
    return Markup(template.render(task=task, run=run, shown=shown, clip=clip, figure=figure))


def choose(tasks: Iterable[TaskRow]) -> list[Chosen]:
    """Return a few tasks of every step and kind: accepted ones spread over rho, some rejected."""
    groups: dict[tuple[int, str], list[TaskRow]] = {}
    for task in tasks:
        groups.setdefault((task.step, task.kind), []).append(task)
    chosen = []
    for key in sorted(groups):
        accepted = [task for task in groups[key] if task.accepted]
        accepted.sort(key=lambda task: -1.0 if task.rho is None else task.rho)
        picked = _spread(accepted, ACCEPTED) + _varied(groups[key], REJECTED)
        chosen += [Chosen(task, rank) for rank, task in enumerate(picked)]
    return chosen


def _spread(tasks: list[TaskRow], most: int) -> list[TaskRow]:
    if len(tasks) <= most:
        return tasks
    return [tasks[round(i * (len(tasks) - 1) / (most - 1))] for i in range(most)]


def _varied(tasks: list[TaskRow], most: int) -> list[TaskRow]:
    rejected = [task for task in tasks if not task.accepted]
    first: dict[str, TaskRow] = {}
    for task in rejected:
        first.setdefault(task.status, task)
    others = [task for task in rejected if first[task.status] is not task]
    return [*first.values(), *others][:most]


def _within_budget(
    run: Run, chosen: list[Chosen], shown: Shown, budget: int
) -> tuple[list[Markup], int]:
    """Return cards in their order, lower ranks served first, and how many were left out."""
    cards: dict[int, Markup] = {}
    for place in sorted(range(len(chosen)), key=lambda i: (chosen[i].rank, i)):
        card = task_card(chosen[place].task, run.name, shown)
        size = len(card.encode())
        if size <= budget:
            cards[place] = card
            budget -= size
    return [cards[place] for place in sorted(cards)], len(chosen) - len(cards)
