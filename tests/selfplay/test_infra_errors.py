"""What the sandbox failed at counts nowhere."""

import json
import re
from io import StringIO
from itertools import count
from random import Random
from types import SimpleNamespace

import pytest
from json_lines import read_rows
from rich.console import Console

from code_verifier import Grade, SandboxUnavailable, Status, Task, Verdict, pool
from code_verifier.jail.wire import READER
from code_verifier.pool import Pool
from code_verifier.process import Process, ProcessLost
from league import League
from selfplay.evaluate import evaluate_members
from selfplay.experiments.comparison import compare
from selfplay.files.record import read_run
from selfplay.learning.rewards import training_samples
from selfplay.reports import run_page
from selfplay.reports.findings import conclusion
from selfplay.reports.progress import Progress
from selfplay.sampling.judge import open_sandbox
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.seeds import read_tasks
from selfplay.step import match, propose, record_outcomes, solve, train_step, verify
from selfplay.step_rows import metrics_row
from selfplay.tasks.held_out import HELD_OUT
from selfplay.tasks.template import NANO
from selfplay.training import new_run
from selfplay_command import command, refused, worked

ALL_KINDS = "eval.held_out=[nano_code_o, nano_code_i, nano_code_f]"
SHORT = ("steps=2", "eval.eval_every=0", "eval.same_tasks=0")
TASK = Task("code_o", "def f(a):\n    return a", "1", "1")


def solved(status, scores=()):
    attempts = [Attempt("s0", TASK, 0, 1.0, score=s) for s in scores]
    task = TASK if status == "ok" else None
    return Proposed(
        0, "p", "t0", "s0", "code_o", (), 0, status=status, task=task, attempts=attempts
    )


def test_an_infra_error_is_not_an_invalid_task(tmp_path):
    with League(tmp_path / "league", ["t0"], ["s0"]) as league:
        (pair,) = league.pair(1)
        done = [solved(Status.OK, (1.0, 0.0)), solved(Status.EXCEPTION)]
        done += [solved(Status.SANDBOX_ERROR)] * 2
        record_outcomes(SimpleNamespace(league=league), [pair], done)
        outcome = league.state.outcomes[pair.id]
        assert (outcome.tasks, outcome.valid, outcome.invalid, outcome.infra_errors) == (2, 1, 1, 2)
        assert (outcome.attempts, outcome.solved) == (2, 1)


def test_a_step_without_a_judged_proposal_has_no_valid_share():
    """0 would be a warning that hardly a proposal is valid."""
    played = SimpleNamespace(in_play=())
    run = SimpleNamespace(step=0, template=played, structures=(), league=None)
    for status in (Status.SANDBOX_ERROR, HELD_OUT):
        assert metrics_row(run, [solved(status)], [], {}, (), 0, {}).valid_share is None


class FaultySandbox:
    """The run's own sandbox, which fails on some programs: while validating, or while grading."""

    def __init__(self, sandbox, share):
        self.sandbox, self.share, self.workers = sandbox, share, sandbox.workers
        self.failed = set()

    def fails(self, program, when):
        drawn = Random(f"{when} {program}").random()
        if drawn < self.share:
            self.failed.add(program)
        return drawn < self.share

    def validate(self, proposal):
        if self.fails(proposal.program, "validate"):
            return Verdict(Status.SANDBOX_ERROR, reason="planted")
        return self.sandbox.validate(proposal)

    def grade(self, task, answer, fail_fast=False):
        if self.fails(task.program, "grade"):
            return Grade(0.0, "planted", status=Status.SANDBOX_ERROR)
        return self.sandbox.grade(task, answer, fail_fast)


def essence(p):
    """What a proposal and the attempts at it were, but for the last bits of probabilities, in
    which the company in a batch shows."""
    attempts = [(a.rollout.completion_ids, a.answer, a.score, a.infra_error) for a in p.attempts]
    return p.id, p.text, p.status, p.task, attempts


def test_a_step_with_faults_teaches_what_the_step_without_those_tasks_teaches(runs, tmp_path):
    config = runs.config(
        *("rollout.kinds=[code_o, code_i, code_f]", "rollout.proposals=6"),
        *("rollout.max_proposal_length=40", "rollout.max_completion_length=16"),
        *("eval.eval_every=0", "eval.same_tasks=2"),
    )
    stepped = []
    with new_run(config, tmp_path / "run") as run:
        own, matches = run.sandbox, match(run, 1)
        for share in (0.0, 0.3):
            run.sandbox = FaultySandbox(own, share)
            solved, _ = solve(run, verify(run, propose(run, matches, 1)), 1)
            samples = training_samples(solved, config)
            row = metrics_row(run, solved, samples, {}, (), 0, {})
            stepped.append((solved, row, run.sandbox.failed))
    (clean, _, none), (faulty, row, failed) = stepped
    assert not none

    def touched(p):
        return p.proposal is not None and p.proposal.program in failed

    kept = [p for p in clean if not touched(p)]
    assert 0 < len(kept) < len(clean) - 3
    assert [essence(p) for p in faulty if not touched(p)] == [essence(p) for p in kept]
    # A task of whose answers one could not be read, and the others not be judged, is in between.
    mine = training_samples([p for p in faulty if p.infra_error or not touched(p)], config)
    alone = training_samples(kept, config)
    learned = [
        [
            (s.member, s.phase, s.task_id, s.reward, s.rollout.completion_ids, s.advantage)
            for s in samples
        ]
        for samples in (mine, alone)
    ]
    assert learned[0] == learned[1]
    broken = [p for p in faulty if p.infra_error]
    at_validation = [p for p in broken if p.status == Status.SANDBOX_ERROR]
    assert row.infra_errors["proposals"] == len(at_validation) > 0
    assert row.infra_errors["attempts"] >= sum(len(p.attempts) for p in broken) > 0


def failing(ask, fails):
    """`Pool.ask` where executions are lost while `fails()`; programs are still read."""

    def lost(pool, profile, *rest):
        if fails() and profile.kind != READER:
            raise ProcessLost("planted")
        return ask(pool, profile, *rest)

    return lost


def test_nothing_begins_where_no_program_is_judged_and_a_resume_begins_it(
    runs, tmp_path, monkeypatch
):
    home = tmp_path / "run"
    with monkeypatch.context() as broken:
        broken.setattr(Pool, "ask", failing(Pool.ask, lambda: True))
        result = command(*runs.arguments(home, *SHORT, "steps=1"))
    words = ("a test program ended with sandbox_error", "planted", "the run has not begun")
    refused(result, *words, f"resume {home}", code=1)
    assert not result.stdout
    assert not (home / "metrics.jsonl").exists()
    worked("resume", home, "--quiet")
    assert len(read_rows(home / "metrics.jsonl")) == 1


def test_a_step_of_which_most_is_not_judged_stops_the_run_and_a_resume_loses_nothing(
    runs, tmp_path, monkeypatch
):
    settings = (*SHORT, "save_every=1", "rollout.proposals=4")
    home, whole = tmp_path / "run", runs.train(tmp_path / "whole", *settings)
    done = home / "metrics.jsonl"
    with monkeypatch.context() as broken:
        broken.setattr(Pool, "ask", failing(Pool.ask, lambda: done.exists() and read_rows(done)))
        result = command(*runs.arguments(home, *settings))
    refused(result, "proposals were not judged", "planted", f"resume {home}`", code=1)
    assert "nothing is lost" in result.stderr
    assert not result.stdout
    assert len(read_rows(done)) == 1
    worked("resume", home, "--quiet")
    assert runs.outcome(home) == runs.outcome(whole)


def test_a_run_says_once_which_layers_of_determinism_are_missing(runs, tmp_path, monkeypatch):
    start = Process.start

    def without(process):
        start(process)
        process.layers |= dict.fromkeys(("addresses", "clocks"), False)

    monkeypatch.setattr(Process, "start", without)
    monkeypatch.setattr(pool, "_lacking", set())
    quiet, loud = (
        runs.arguments(tmp_path / name, *SHORT, "steps=1", "mode=azr") for name in ("one", "two")
    )
    loud.remove("--quiet")
    line = "warning: this machine lacks the sandbox's addresses and clocks: verdicts may differ"
    for words in (quiet, loud):
        result = command(*words)
        assert result.exit_code == 0, result.output
        said = [text for text in result.stderr.splitlines() if "lacks" in text]
        assert [text.lstrip()[: len(line)] for text in said] == [line]


def test_every_rate_says_how_many_were_not_judged(runs, tmp_path):
    config = runs.config(
        *("rollout.kinds=[code_o]", "rollout.proposals=8", "steps=1", "eval.tasks=24"),
        *("rollout.max_proposal_length=40", "rollout.max_completion_length=16"),
        *("eval.proposals=4", "eval.eval_every=1", ALL_KINDS),
    )
    home = tmp_path / "run"
    screen = StringIO()
    shown = Progress(Console(file=screen, width=400))
    with new_run(config, home, progress=shown) as run:
        run.sandbox = FaultySandbox(run.sandbox, 0.2)
        row = train_step(run)
    (counts,) = [row["infra_errors"] for row in read_rows(home / "metrics.jsonl")]
    proposals, attempts = counts["proposals"], counts["attempts"]
    assert proposals > 0 < attempts
    assert {a.verdict for t in row.tasks for a in t.attempts} >= {"not judged"}
    record = read_run(home)
    solving = {row.member: row.rate.not_judged for row in record.latest_evals() if row.rate}
    assert all(solving.values())
    for rate in (row.rate for row in record.latest_evals() if row.rate):
        assert rate.difference == pytest.approx(rate.solve_rate - rate.base_solve_rate)
    line = next(line for line in screen.getvalue().splitlines() if line.startswith("step 1 of 1"))
    assert re.search(rf"valid \d+%, {proposals} not judged, solved .*, {attempts} not judged", line)
    assert f"{solving['s0']} not judged)" in screen.getvalue()
    text = run_page.summary(home)
    assert f"; {sum(solving.values())} not judged)" in conclusion(record)
    assert f"Not judged, and in no number: {proposals} proposals of the steps, {attempts}" in text
    assert re.search(rf"s0, {solving['s0']} not judged +\d", text)
    assert re.search(rf"Valid share {proposals} not judged +\d", text)
    page = tmp_path / "page.html"
    run_page.report(home, page)
    assert f"own tasks. {attempts} not judged." in page.read_text()
    assert "in no number" in "\n".join(compare([home]).lines())


def test_a_baseline_keeps_no_rate_of_a_task_that_was_judged_in_part(runs, tmp_path):
    config = runs.config("rollout.kinds=[code_i]", ALL_KINDS, "eval.tasks=8", "eval.samples=4")
    with new_run(config, tmp_path / "run") as run:
        clean = run.baseline_rates["base"]
        grades = count()

        class Once(FaultySandbox):
            def grade(self, task, answer, fail_fast=False):
                if next(grades) == 0:
                    return Grade(0.0, "planted", status=Status.SANDBOX_ERROR)
                return self.sandbox.grade(task, answer, fail_fast)

        run.sandbox = Once(run.sandbox, 0.0)
        row = evaluate_members(run, 0)[0].rate
        kept = run.baseline_rates["base"]
    assert next(grades) > 1
    assert kept == row.rates
    assert kept.count(None) == 1
    assert row.not_judged == 4
    assert [a for a, b in zip(clean, kept, strict=True) if b is not None] == [
        b for b in kept if b is not None
    ]


def test_a_file_of_tasks_with_an_unjudged_row_is_refused_with_its_line(runs, tmp_path):
    file = tmp_path / "tasks.jsonl"
    rows = [{"program": f"def f(x):\n    return x + {n}", "input": "1"} for n in range(9)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    class Third(FaultySandbox):
        def fails(self, program, when):
            return program.endswith("x + 2")

    with open_sandbox(runs.config()) as sandbox:
        given = (NANO, ["code_o"])
        assert len(read_tasks(file, *given, sandbox, print)) == 9
        with pytest.raises(SandboxUnavailable, match=r"tasks\.jsonl, line 3: not judged: planted"):
            read_tasks(file, *given, Third(sandbox, 0.0), print)
