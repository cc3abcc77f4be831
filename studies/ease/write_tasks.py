"""Write files of tasks that differ in their shares of traps and of easy tasks alone.

    python -m studies.ease.write_tasks TASKS DIR

TASKS is `repeats.jsonl` of `studies.fixed.write_tasks`. DIR/traps-11-easy-25.jsonl and three more
have as many rows each: 11 or 21 % traps, 3 or 25 % easy tasks, whose program has one operator, and
else tasks of two to four operators. Rows are drawn by a seed that never changes, and each file has
the first ones of the same three orders, so that two files differ as little as their shares allow.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random

import click
from studies.collapse.niches import TRAP_NAME, depth_of, family_of
from studies.fixed.write_tasks import write

from code_verifier import Task, read_rows

TRAPS, EASY = (11, 21), (3, 25)
"""Shares, in %: about those of all tasks that the base writes (few traps, many easy ones), and of
its different tasks (many traps, few easy ones), before held-out tasks are left out."""
ROWS = 8000


def sort_of(task: Task) -> str:
    """Return `traps`, `easy`, or `others`."""
    if family_of(task.program) == TRAP_NAME:
        return "traps"
    return "easy" if depth_of(task.program) == 1 else "others"


def mixed(sorts: Mapping[str, Sequence[Task]], traps: int, easy: int, rows: int) -> list[Task]:
    """Return rows with these shares of traps and easy tasks, in %; sorts: tasks by `sort_of`.

    Raises ClickException where a sort has too few.
    """
    counts = {"traps": rows * traps // 100, "easy": rows * easy // 100}
    counts["others"] = rows - sum(counts.values())
    for sort, count in counts.items():
        if len(sorts[sort]) < count:
            raise click.ClickException(f"{len(sorts[sort])} {sort}; expected {count} or more")
    return [task for sort, count in counts.items() for task in sorts[sort][:count]]


@click.command()
@click.argument("tasks", type=click.Path(exists=True, path_type=Path))
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rows", default=ROWS, show_default=True, help="Rows of each file.")
def main(tasks: Path, directory: Path, rows: int) -> None:
    """Write four files of the TASKS of the base to DIRECTORY."""
    sorts: dict[str, list[Task]] = {"traps": [], "easy": [], "others": []}
    for _, row in read_rows(tasks):
        task = Task.from_row(row, complete=True)
        sorts[sort_of(task)].append(task)
    for sort, of_sort in sorts.items():
        Random(sort).shuffle(of_sort)
    directory.mkdir(parents=True, exist_ok=True)
    for traps, easy in product(TRAPS, EASY):
        name = f"traps-{traps}-easy-{easy}.jsonl"
        write(directory / name, mixed(sorts, traps, easy, rows))
    click.echo(", ".join(f"{len(of_sort)} {sort}" for sort, of_sort in sorts.items()))


if __name__ == "__main__":
    main()
