"""What members were shown: the prompts, written again from the tasks that they are made of."""

from collections.abc import Collection

from code_verifier import CodeVerifierError, Task
from selfplay.config.run_config import RunConfig, read_config
from selfplay.errors import SelfplayError
from selfplay.prompts.template import Template, template_named
from selfplay.records.row_file import read_rows
from selfplay.records.task_row import TaskRow
from selfplay.report.reading.run_data import Run
from selfplay.run.directory import TASKS
from selfplay.run.seeds import seed_tasks


class Shown:
    """Writes the prompts of some tasks of a run; of a chat template all but its frame."""

    def __init__(self, run: Run, tasks: Collection[TaskRow]) -> None:
        self._known: dict[str, Task] = {}
        self._template: Template | None = None
        try:
            config = read_config(run.config)
        except SelfplayError:  # of another version: its prompts are not known here
            return
        name = "azr" if config.template == "azr-chat" else config.template
        self._template = template_named(name, config.base)
        self._known = _references(run, config, {id for task in tasks for id in task.references})

    def to_teacher(self, task: TaskRow) -> str | None:
        """Return the prompt of a proposal; None where its references are not known."""
        references = [self._known[id] for id in task.references if id in self._known]
        if self._template is None or not 0 < len(references) == len(task.references):
            return None
        return self._template.propose_prompt(task.kind, references)

    def to_student(self, task: TaskRow) -> str | None:
        """Return the prompt of an attempt; None for what is no task."""
        found = _task(task)
        return self._template.solve_prompt(found) if found and self._template else None


def _task(row: TaskRow) -> Task | None:
    try:
        return row.task() if row.accepted else None
    except CodeVerifierError:  # a row that somebody else wrote
        return None


def _references(run: Run, config: RunConfig, wanted: set[str]) -> dict[str, Task]:
    rows = read_rows(run.directory / TASKS, TaskRow)
    known = {row.id: task for row in rows if row.id in wanted and (task := _task(row))}
    if wanted - set(known):
        count, template = config.rollout.seed_tasks, config.template
        known |= {task.id: task for task in seed_tasks(template, count, config.seed)}
    return known
