"""Runs on tasksets of `verifiers`: one of ours, one whose rewards misbehave, and wrong ones."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from json_lines import read_rows

from code_verifier import Sandbox, Tasksets
from code_verifier.taskset_child import answer
from evals import EvalsError
from evals.catalog import load_named
from evals.cli import main as evals
from evals.recipes import render
from selfplay.config import read_config
from selfplay.files.record import read_run
from selfplay.reports.run_page import report, summary
from selfplay.settings import assignment, put, read_preset
from selfplay.tasks.held_out import tasks_of
from selfplay.tasks.template import AZR
from selfplay.training import resume, train
from selfplay_command import command, outcome, refused, train_until, worked

pytest.importorskip("verifiers.v1")
EXAMPLES = Path(__file__).parents[2] / "examples"
ODD = """
import os, sys, time
import verifiers.v1 as vf

class Data(vf.TaskData):
    seen: list = []
    solve_rate: float = 0.5

class Task(vf.Task[Data]):
    @vf.reward(weight=0.5)
    async def obey(self, trace):
        told = trace.last_reply
        print("told", told)
        self.data.seen.append(told)
        if told == "raise":
            raise ValueError("as told,\\nin two lines")
        if told == "leave":
            sys.exit(3)
        if told == "die":
            os._exit(7)
        while told == "sleep":
            time.sleep(1)
        if told == "write":
            trace.record_reward("more", 4.0, 0.25)
            trace.nodes.clear()
        if told == "read":
            return float(sys.stdin.read() == "")
        if told == "thought":
            message = trace.messages[-1]
            return float(message.reasoning_content == "hm" and trace.messages[0].role == "system")
        values = {"nan": float("nan"), "none": None, "large": 2e9, "seen": len(self.data.seen)}
        return values.get(told, 2.0)

class Config(vf.TasksetConfig):
    count: int = 3

class Odd(vf.Taskset[Task, Config]):
    def load(self):
        for i in range(self.config.count):
            yield Task(Data(prompt=f"{i}", system_prompt="Obey."), self.config.task)

class Bounded(Odd):
    MAX_REWARD = 2

class Needy(vf.Task[Data]):
    @vf.reward
    async def runs(self, trace, runtime):
        return 1.0

class Tools(Odd):
    @classmethod
    def toolsets(cls, config):
        return [object()]

class JudgedConfig(vf.TaskConfig):
    judge: vf.JudgeConfig = vf.JudgeConfig()

class Judged(vf.Task[Data, vf.State, JudgedConfig]):
    @vf.reward
    async def liked(self, trace):
        return 1.0

def taskset(task, prompt="1", **more):
    def load(self):
        yield task(Data(prompt=prompt))
    return type("Made", (vf.Taskset,), {"load": load, **more})

Endless = taskset(Task, INFINITE=True)
Runtime = taskset(Needy)
Judge = taskset(Judged)
Silent = taskset(vf.Task)
Turns = taskset(Task, [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
Broken = type("Broken", (vf.Taskset,), {"load": lambda self: 1 // 0})
Empty = type("Empty", (vf.Taskset,), {"load": lambda self: []})
"""
SMALL = (
    *("seed=1", "steps=4", "sandbox.workers=1", "sandbox.wall_s=60"),
    *("rollout.tasks=verifiers:one_call", "rollout.proposals=3", "rollout.num_generations=4"),
    *("rollout.max_completion_length=12", "evolution.evolve_every=2", "league.grace_matches=1"),
    *("evolution.mutate_rate=0.2", "eval.eval_every=2", "eval.tasks=4", "eval.samples=2"),
    *("eval.same_tasks=1", "rollout.taskset.count=60"),
)


@pytest.fixture(scope="module", autouse=True)
def _modules(tmp_path_factory):
    """The example and the odd tasksets can be imported."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "odd.py").write_text(ODD)
    with pytest.MonkeyPatch.context() as patch:
        for place in (EXAMPLES, folder):
            patch.syspath_prepend(place)
        yield


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of a module of the test's own."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def odd():
    with Tasksets([{"name": "odd:Odd", "config": {}, "limit": None}], wall_s=60) as tasksets:
        yield tasksets


def config(*assignments):
    data = read_preset("nano")
    for text in (*SMALL, *assignments):
        put(data, *assignment(text))
    return read_config(data)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    home = tmp_path_factory.mktemp("whole") / "run"
    train(config("pieces=8"), home)
    return home


def test_replies_are_scored_as_by_hand():
    source = {"name": "one_call", "config": {"count": 9, "question": "What?"}, "limit": None}
    with Tasksets([source], workers=2, wall_s=60) as tasksets:
        (tasks,) = tasksets.tasks
        assert len({task.output for task, _ in tasks}) == 9
        for task, _ in tasks:
            question, _, program = (task.input or "").partition("\n\n")
            scope: dict[str, object] = {}
            exec(program, scope)
            answer = eval(program.rpartition("\n")[2], scope)
            scores = {answer: 1.0, f"hm</think> {answer}": 1.0, 1000: 0.2, "no": 0.0, "": 0.0}
            assert {r: tasksets.grade(task, str(r)).score for r in scores} == scores
            assert question == "What?"


@pytest.mark.parametrize(
    ("reply", "score", "reason"),
    [
        ("fine", 1.0, "obey 1"),
        ("raise", None, "as told, in two lines"),
        ("leave", None, "SystemExit: 3"),
        ("die", None, "its process ended with code 7"),
        ("nan", None, "nan}; expected a finite number"),
        ("none", None, "TypeError"),
        ("large", 1e9, "obey 1e+09"),
        ("write", 2.0, "obey 1, more 1"),
        ("read", 0.5, ""),
        ("hm</think>thought", 0.5, ""),
        ("seen", 0.5, ""),
    ],
)
def test_whatever_a_reward_does_the_next_reply_is_scored(odd, reply, score, reason):
    (task, row), *_ = odd.tasks[0]
    grade = odd.grade(task, reply)
    assert grade.judged == (score is not None), grade
    assert grade.score == (score or 0.0)
    assert reason in grade.reason
    assert odd.grade(task, "fine").score == 1.0
    assert row["solve_rate"] == 0.5


def test_a_score_is_a_share_of_the_largest_reward_and_rewards_have_a_time_limit():
    with Tasksets([{"name": "odd:Bounded", "config": {}, "limit": 1}], wall_s=30) as tasksets:
        ((task, _),) = tasksets.tasks[0]
        assert tasksets.grade(task, "fine").score == 0.5
        large, late = tasksets.grade(task, "large"), tasksets.grade(task, "sleep")
    assert "1000000000.0}; expected at most its MAX_REWARD 2" in large.reason
    assert late.reason == "its rewards took more than 30 s"
    assert not large.judged
    assert not late.judged


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("not_there", {}, "taskset 'not_there' not found"),
        ("odd:Odder", {}, "has no vf.Taskset Odder; expected an installed id or module:Class"),
        ("odd:Odd", {"cuont": 3}, "cuont Extra inputs are not permitted"),
        ("odd:Odd", {"count": "x"}, "count Input should be a valid integer"),
        ("odd:Endless", {}, "it has no end; set a limit, such as rollout.taskset_limit"),
        ("odd:Tools", {}, "it has tools"),
        ("odd:Turns", {}, "turns of user, assistant; expected a user's text"),
        ("odd:Runtime", {}, "runs needs a runtime"),
        ("odd:Judge", {}, "it has judges, which need a server"),
        ("odd:Silent", {}, "its tasks have no @vf.reward"),
        ("odd:Broken", {}, "ZeroDivisionError"),
        ("odd:Empty", {}, "it has no task"),
    ],
)
def test_a_taskset_that_cannot_be_used_is_refused(name, values, said):
    assert said in answer({"name": name, "config": values, "limit": None})["error"]


def test_students_learn_and_are_measured_on_a_share_that_is_held_out(whole, tmp_path):
    run = read_run(whole)
    assert run.kinds == ["taskset"]
    assert any(m.stepped for row in run.steps for m in row.members.values())
    assert [birth.child for _, birth in run.births] == ["s2"]
    assert {row.member for row in run.evals} >= {"base", "s2"}
    assert all(row.rate is not None for row in run.evals)
    seeds = [row["input"] for row in read_rows(whole / "seeds.jsonl")]
    assert len(set(seeds)) == 54  # of 60; a tenth is held out
    scores = {a["score"] for row in read_rows(whole / "tasks.jsonl") for a in row["attempts"]}
    assert scores <= {0.0, 0.2, 1.0}
    assert len(scores) > 1
    for row in read_rows(whole / "tasks.jsonl"):
        assert row["input"] in seeds
        for a in row["attempts"]:
            assert a["reward"] == (-1.0 if a["answer"] is None else a["score"])
    report(whole, tmp_path / "page.html")
    assert "def f(a):" in (tmp_path / "page.html").read_text()
    assert "on the tasks of verifiers:one_call" in summary(whole)


def test_a_killed_run_goes_on_to_the_same_bytes(whole, tmp_path):
    home = tmp_path / "run"
    train_until(3, config("pieces=8"), home, phase="update")
    resume(home)
    assert outcome(home) == outcome(whole)


@pytest.mark.skipif(not find_spec("ray"), reason="workers need Ray: pip install ray")
def test_two_workers_give_the_same_bytes(whole, tmp_path):
    home = tmp_path / "run"
    train(config("pieces=8"), home, workers=2)
    assert outcome(home) == outcome(whole)


def test_a_second_taskset_is_held_out_and_guarded_and_may_be_measured_by_any_run(tmp_path):
    """Of the first twenty tasks, the first five are those of the second taskset."""
    other = ("eval.held_out=[verifiers:one_call]", "eval.taskset.count=5", "steps=2")
    train(config(*other, "rollout.taskset.count=20", "rollout.proposals=10"), tmp_path / "run")
    rows = read_rows(tmp_path / "run" / "tasks.jsonl")
    assert sum(row["status"] == "held_out" for row in rows) == 10  # five, once for each student
    assert {row["status"] for row in rows} == {"held_out", "ok"}
    own = ("rollout.tasks=null", "teachers=1", "rollout.kinds=[code_o]", "eval.taskset.count=5")
    own = (*own, "eval.held_out=[verifiers:one_call, nano_code_o]", "eval.tasks=24")
    train(config(*own, "steps=1"), tmp_path / "other")
    measured = {row.member: row.rate for row in read_run(tmp_path / "other").evals}
    assert list(measured["s0"].kinds) == ["code_o", "taskset"]


def test_a_run_whose_rewards_fail_ends_with_their_cause(own, tmp_path):
    (own / "failing.py").write_text(ODD.replace("told = trace.last_reply", "told = 'raise'"))
    sets = ("rollout.tasks=verifiers:failing:Odd", "rollout.taskset.count=20", "eval.eval_every=0")
    words = [part for text in (*SMALL, *sets) for part in ("--set", text)]
    done = command("train", "--out", tmp_path / "run", "--quiet", *words)
    assert done.exit_code == 1, done.output
    assert "answers were not judged: TaskError: task Task scoring: ValueError: as" in done.stderr


def test_a_changed_taskset_is_named_at_a_resume(own, tmp_path):
    module = own / "changing.py"
    module.write_text(ODD)
    sets = ("rollout.tasks=verifiers:changing:Odd", "rollout.taskset.count=20", "steps=2")
    train_until(2, config(*sets), tmp_path / "run", phase="solve")
    module.write_text(ODD.replace("Obey.", "Obey, now."))
    done = command("resume", tmp_path / "run", "--quiet")
    assert done.exit_code == 2, done.output
    assert "or a taskset, are not those on which the run was measured before" in done.stderr


def test_nothing_of_verifiers_is_imported_here():
    code = "import sys, selfplay.training, evals; sys.exit('verifiers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_taskset_that_differs_each_time_judges_nothing(own):
    (own / "differing.py").write_text(ODD)
    with Tasksets([{"name": "differing:Odd", "config": {}, "limit": None}], wall_s=60) as tasksets:
        task = tasksets.tasks[0][0][0]
        (own / "differing.py").write_text(ODD.replace("Obey.", "Obey, now."))
        assert not tasksets.grade(task, "die").judged
        assert "lacks this task" in tasksets.grade(task, "fine").reason


def test_adapters_are_measured_on_a_taskset(tmp_path):
    """Of three questions one is answered rightly, one in part, and one reward raises."""
    (tmp_path / "odd.toml").write_text("count = 3\n")
    name = f"verifiers:odd:Bounded={tmp_path / 'odd.toml'}"
    rows = [("odd:Bounded/0", "write"), ("odd:Bounded/1", "fine"), ("odd:Bounded/2", "raise")]
    samples = tmp_path / "samples.jsonl"
    samples.write_text("".join(json.dumps({"id": i, "response": r}) + "\n" for i, r in rows))
    done = CliRunner().invoke(
        evals, ["grade", name, str(samples), "--out", str(tmp_path / "v.jsonl")]
    )
    assert done.exit_code in (0, 1), done.output
    verdicts = read_rows(tmp_path / "v.jsonl")
    assert [row["correct"] for row in verdicts] == [True, False, None]
    assert "as told, in two lines" in verdicts[2]["reason"]
    benchmark, other = load_named([name, "verifiers:odd:Bounded"], [])
    assert benchmark.content_hash != other.content_hash  # of the same tasks otherwise configured
    (question, *_), recipe = benchmark.questions, benchmark.recipe
    template = SimpleNamespace(chat_template="x", apply_chat_template=lambda turns, **_: str(turns))
    asked = render(recipe, "verifiers:odd:Bounded", question.fields, template)
    assert asked == str([{"role": "system", "content": "Obey."}, {"role": "user", "content": "0"}])
    with pytest.raises(EvalsError, match=r"No such file or directory: .*none.toml"):
        load_named(["verifiers:odd:Odd=none.toml"], [])


REPLIES = ("right", "other", "bare", "none", "open", "two")


def replies(tasks):
    """A reply to each task, of which most are read and some are right."""
    for number, task in enumerate(tasks):
        right, other = (AZR.kind(t.kind).answer_text(t, "hm") for t in (task, tasks[number - 3]))
        bare = right.rpartition("<answer>")[2].removesuffix("</answer>")
        how = {"right": right, "other": other, "bare": bare, "none": "I do not know."}
        how |= {"open": right[:-14], "two": f"{other}\n{right}"}
        yield how[REPLIES[number % len(REPLIES)]]


def test_an_exported_taskset_scores_as_our_grader(tmp_path, monkeypatch):
    sets = [tasks_of(name) for name in ("nano_code_o", "nano_code_i", "nano_code_f")]
    tasks = [task for three in zip(*sets, strict=False) for task, _ in three][:100]
    file, out = tmp_path / "tasks.jsonl", tmp_path / "my_tasks"
    file.write_text("".join(json.dumps(task.to_row()) + "\n" for task in tasks))
    assert "100 tasks" in worked("export-taskset", file, out)
    refused(command("export-taskset", file, out), "exists")
    refused(command("export-taskset", file, tmp_path / "My-tasks"), "cannot be a taskset's id")
    monkeypatch.syspath_prepend(out)
    scores = []
    source = {"name": "my_tasks", "config": {}, "limit": None}
    with Tasksets([source], wall_s=120) as tasksets, Sandbox() as sandbox:
        given = list(replies(tasks))
        theirs = [
            tasksets.grade(task, reply)
            for (task, _), reply in zip(tasksets.tasks[0], given, strict=True)
        ]
        for task, reply, grade in zip(tasks, given, theirs, strict=True):
            answer = AZR.kind(task.kind).parse_answer(task, reply)
            ours = 0.0 if answer is None else sandbox.grade(task, answer, fail_fast=True).score
            assert grade.judged, grade
            assert grade.score == ours, (task.kind, reply)
            scores.append(ours)
    assert len(scores) == 100
    assert 30 < sum(score == 1.0 for score in scores) < 80


def test_the_tasks_of_a_run_become_a_taskset(tmp_path):
    run = tmp_path / "run"
    own = ("rollout.tasks=null", "teachers=1", "rollout.kinds=[code_o]", "eval.eval_every=0")
    train(config(*own, "steps=1"), run)
    worked("export-taskset", run, tmp_path / "written")
    accepted = [row for row in read_rows(run / "tasks.jsonl") if row["status"] == "ok"]
    rows = read_rows(tmp_path / "written" / "written" / "tasks.jsonl")
    assert [row["program"] for row in rows] == [row["program"] for row in accepted]
    assert all(row["program"] in row["prompt"] for row in rows)
