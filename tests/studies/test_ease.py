"""The study of traps and ease: its plan, and files that differ in two shares alone."""

from collections import Counter
from itertools import combinations
from pathlib import Path

from click.testing import CliRunner
from studies.collapse.niches import program_of, trap_program
from studies.ease import write_tasks
from studies.fixed.write_tasks import write

from code_verifier import Task, read_rows
from selfplay.experiments.experiment import open_plan

PROGRAMS = (
    *(trap_program(number) for number in range(30)),
    *(program_of((f"a{k % 4}",)) for k in range(30)),
    *(program_of(("b0",) * depth) for depth in (2, 3, 4) for _ in range(35)),
)


def test_each_arm_has_the_file_of_its_name_and_nothing_else():
    plan = open_plan("studies/ease/plan.yaml")
    for arm in plan.arms:
        file = plan.run_config(arm, 1).rollout.tasks
        assert file == f"runs/ease-tasks/{arm.replace(' ', '-')}.jsonl"
    assert {f"traps {t} easy {e}" for t in write_tasks.TRAPS for e in write_tasks.EASY} == {
        *plan.arms
    }
    assert len(plan.runs(Path())) == 20


def test_files_have_their_shares_and_are_as_alike_as_these_allow(tmp_path):
    tasks = [Task("code_o", text, str(n % 8), "3").with_id() for n, text in enumerate(PROGRAMS)]
    write(tmp_path / "tasks.jsonl", tasks)
    words = [str(tmp_path / "tasks.jsonl"), str(tmp_path / "files"), "--rows", "100"]
    done = CliRunner().invoke(write_tasks.main, words)
    assert done.exit_code == 0, done.output
    files = {}
    for path in (tmp_path / "files").iterdir():
        tasks = [Task.from_row(row, complete=True) for _, row in read_rows(path)]
        _, traps, _, easy = path.stem.split("-")
        counts = Counter(map(write_tasks.sort_of, tasks))
        assert counts["traps"] == int(traps)
        assert counts["easy"] == int(easy)
        assert len(tasks) == 100
        files[int(traps), int(easy)] = Counter(task.id for task in tasks)
    assert len(files) == 4
    for one, other in combinations(files, 2):
        common = (files[one] & files[other]).total()
        few = min(one[0], other[0]), min(one[1], other[1])
        assert common == sum(few) + 100 - max(sum(one), sum(other))
