"""Write the tasks of a run whose teachers never learned to files that other runs are trained on.

    python -m studies.fixed.write_tasks RUN DIR

DIR/whole.jsonl has every different task that the sandbox accepted, DIR/tenth.jsonl a tenth of them,
drawn by a seed that never changes, and DIR/repeats.jsonl each task as often as it was written.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

import click

from code_verifier import Task
from selfplay import read_run


def write(path: Path, tasks: Iterable[Task]) -> None:
    """Write tasks as JSON Lines."""
    path.write_text("".join(json.dumps(task.to_row()) + "\n" for task in tasks))


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.argument("directory", type=click.Path(path_type=Path))
def main(run: Path, directory: Path) -> None:
    """Write the tasks of RUN to files in DIRECTORY."""
    tasks = [row.task() for row in read_run(run).tasks() if row.accepted]
    different = list({(t.kind, t.program, t.input, t.inputs): t for t in tasks}.values())
    drawn = Random(0).sample(range(len(different)), -(-len(different) // 10))
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "repeats.jsonl", tasks)
    write(directory / "whole.jsonl", different)
    write(directory / "tenth.jsonl", (different[i] for i in sorted(drawn)))
    click.echo(f"{len(tasks)} tasks, {len(different)} different, {len(drawn)} in tenth.jsonl")


if __name__ == "__main__":
    main()
