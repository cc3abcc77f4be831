"""How much of what real models wrote survives our prompts and their reading.

    python benchmarks/azr_prompts.py FOLDER [--completions FILE] [--base MODEL]

FOLDER holds seed tasks of Absolute Zero (see azr_seeds.py). Each row becomes the tasks that it
holds, in both roles: the prompt is written, a well-formed completion is made of the row, and what
is read from it must be the row again. --completions: LiveCodeBench's published outputs (rows with
`output_list` and `code_list`), read as answers that should hold a program: how many are read, and
how many of those are the program that LiveCodeBench took. --base: prompts in this model's chat
template instead of the plain frame.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarking import parser

from code_verifier import Proposal, Task
from selfplay.tasks.azr import NUM_INPUTS, OF_THE_FRAME
from selfplay.tasks.reading import argument_text, without_label
from selfplay.tasks.template import Template, template_named

Row = dict[str, Any]
NEUTRAL = Task("code_o", "def f(neutral):\n    return neutral", "0", "0")


def tasks_of(row: Row) -> list[Task]:
    """The tasks that a row holds."""
    program = Proposal.from_row(row).program
    if "inputs" in row:
        half = len(row["inputs"]) // 2
        pairs = (tuple(row["inputs"]), tuple(row["outputs"]))
        return [Task("code_f", program, None, None, *pairs, row["message"], half)]
    return [Task(kind, program, row["input"], row["output"]) for kind in ("code_o", "code_i")]


def solving(template: Template, task: Task) -> str:
    """What becomes of the row in the role of a solver."""
    gold = {"code_o": task.output, "code_i": task.input, "code_f": task.program}[task.kind] or ""
    if not gold.strip():
        return "nothing to answer"
    template.solve_prompt(task)
    expected = {
        "code_o": without_label("output", gold),
        "code_i": argument_text(gold, task.program),
        "code_f": gold.strip(),
    }[task.kind]
    kind = template.kind(task.kind)
    answer = kind.parse_answer(task, kind.answer_text(task, "a thought\n"))
    return "survives" if answer == expected else "LOST"


def proposing(template: Template, task: Task) -> str:
    """What becomes of it in the role of a proposer."""
    demo = Task("code_o", task.program, "0", "0") if task.kind == "code_f" else NEUTRAL
    template.propose_prompt(task.kind, [demo])
    arguments = None if task.input is None else argument_text(task.input, task.program)
    inputs = tuple(argument_text(i, task.program) for i in task.inputs)
    program = task.program if task.kind == "code_f" else task.program.strip("\n").rstrip()
    message = task.message.strip().replace("\r\n", "\n")
    expected = Proposal(task.kind, program, arguments, inputs, message)
    kind = template.kind(task.kind)
    draft = kind.parse_proposal([demo], kind.proposal_text(task, "a thought\n"))
    if draft is None and task.kind == "code_f" and len(task.inputs) != NUM_INPUTS:
        return "not ten inputs"
    texts = (task.program, arguments or "", *inputs, task.message)
    if any(map(OF_THE_FRAME.search, texts)):
        return "refused for marks of the frame"
    return "survives" if draft == expected else "LOST"


def completions(path: Path, template: Template) -> str:
    """How many published outputs are read as programs."""
    task = Task("code_f", "def f(x):\n    return x", inputs=("1",), outputs=("1",))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    pairs = [
        (text, code)
        for row in rows
        for text, code in zip(row["output_list"], row["code_list"], strict=True)
    ]
    read = [(template.kind(task.kind).parse_answer(task, text), code) for text, code in pairs]
    agreed = sum(answer is not None and answer == code.strip() for answer, code in read)
    some = sum(answer is not None for answer, _ in read)
    empty = sum(not code.strip() for _, code in read)
    return (
        f"{path.name}: {some} of {len(pairs)} are read; {agreed} give the published program; "
        f"{empty} were published without one"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--completions", type=Path)
    options.add_argument("--base")
    arguments = options.parse_args()
    name = "azr-chat" if arguments.base else "azr"
    template = template_named(name, arguments.base or "")
    for path in sorted(arguments.folder.glob("*_seed_io.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        counts: Counter[str] = Counter()
        for number, row in enumerate(rows, 1):
            for task in tasks_of(row):
                for role in (solving, proposing):
                    outcome = role(template, task)
                    counts[f"{role.__name__} {task.kind} {outcome}"] += 1
                    if outcome == "LOST":
                        print(f"{path.name}, line {number}: {role.__name__} {task.kind} lost")
        outcomes = "; ".join(f"{what}: {count}" for what, count in sorted(counts.items()))
        print(f"{path.stem}, {len(rows)} rows: {outcomes}")
    if arguments.completions:
        print(completions(arguments.completions, template))


if __name__ == "__main__":
    main()
