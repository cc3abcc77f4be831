"""The nano language: programs by seed, and labels from the sandbox."""

import ast
import re
from collections import Counter
from dataclasses import replace
from random import Random

from code_verifier import Limits, Proposal, Sandbox, canonical
from nano_corpus import ROLES, Curriculum, example, task_of
from nano_labels import label
from nano_language import INPUTS_PER_PROGRAM, Program, random_program
from selfplay.seeds import seed_tasks
from selfplay.tasks.held_out import tasks_of
from selfplay.tasks.nano import END
from selfplay.tasks.template import NANO
from write_tasks import HELD_OUT_SEED, held_out_programs, seed_rows
from write_tasks import PER_LEVEL as SHIPPED


def test_labels_are_what_the_plain_program_returns(labelled):
    chosen = labelled[:: max(1, len(labelled) // 40)]
    pairs = [(row.program.text, run.input, run.output) for row in chosen for run in row.runs[:2]]
    with Sandbox(workers=1, limits=Limits(wall_s=20)) as plain:
        verdicts = list(plain.run_many((program, given) for program, given, _ in pairs))
        assert plain.run(*pairs[0][:2]).output == pairs[0][2]
    assert [v.status for v in verdicts] == ["ok"] * len(pairs)
    assert [v.output for v in verdicts] == [output for *_, output in pairs]
    assert all(canonical(ast.literal_eval(output)) == output for *_, output in pairs)


def test_a_program_that_fails_grows_or_says_nothing_is_left_out(labelling):
    good = random_program(Random(1), 1)
    changes = {"parameters": ("int",), "inputs": tuple((i,) for i in range(INPUTS_PER_PROGRAM))}
    bodies = ["return 1 // 0", "return a * 10 ** 9", "return 5", "return a > 3", "return -a"]
    texts = [f"def f(a):\n    {body}" for body in bodies]
    made = [replace(good, text=text, traced=text, **changes) for text in texts]
    assert [row.program.text for row in label(made, labelling)] == [made[-1].text]


def test_examples_are_read_back_by_the_template_and_judged_right(labelled):
    rng = Random("judge")
    chosen = [r for r in labelled if rng.random() < 0.05]
    graded, proposed = [], []
    for row in chosen:
        for role in ROLES:
            made = example(role, row, row, Random(1))
            assert made.completion.endswith(END)
            text = made.completion.removesuffix(END)
            kind = f"code_{role[-1]}"
            if role.startswith("solve"):
                task = task_of(row, kind, Random(1).choice(row.runs))
                graded.append((task, NANO.kind(kind).parse_answer(task, text)))
            else:
                shown = [task_of(row, kind, row.runs[0])]
                proposed.append(NANO.kind(kind).parse_proposal(shown, text))
    assert all(answer is not None for _, answer in graded)
    assert all(isinstance(p, Proposal) for p in proposed)
    with Sandbox(workers=1, limits=Limits(wall_s=20)) as plain:
        assert {g.score for g in plain.grade_many(graded)} == {1.0}
        statuses = Counter(v.status for v in plain.validate_many(proposed))
    assert statuses["ok"] > 0.9 * len(proposed)


def test_the_curriculum_never_draws_a_held_out_program(labelling, labelled):
    held = {row.program.text for row in labelled if row.program.held_out}
    assert held, "the sample should hold some"
    curriculum = Curriculum(labelled, 0)
    drawn = curriculum.draw(3, 2000, 1.0)
    assert drawn == Curriculum(labelled, 0).draw(3, 2000, 1.0)
    assert drawn != Curriculum(labelled, 1).draw(3, 2000, 1.0)
    assert {e.role for e in drawn} == set(ROLES)
    seen = "\n".join(e.prompt + e.completion for e in drawn) + "\n"
    shown = set(re.split(r"<\|\w+\|>", seen))
    assert not held & shown
    assert {row.program.text for row in labelled} - held & shown


def test_the_shipped_tasks_are_those_that_the_generator_writes(labelling):
    first = list(seed_rows(3, 5, labelling))
    assert [t.program for t in seed_tasks("nano", 5, 3)] == [row["program"] for row in first]
    shipped = tasks_of("nano_code_o")
    assert shipped[0][0].id == "nano_code_o/0"
    assert all(Program(t.program, "", level, (), (), "").held_out for t, level in shipped)
    easiest = held_out_programs(HELD_OUT_SEED, SHIPPED, labelling)[:SHIPPED]
    assert [p.program.text for p in easiest] == [task.program for task, _ in shipped[:SHIPPED]]
