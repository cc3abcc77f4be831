"""Students on fixed tasks, and the retention experiment of the nano model, cut down to seconds."""

import json

import pytest
import torch
from click.testing import CliRunner

from lora_evo import mutate
from lora_evo.recovery.journal import read_journal
from selfplay.cli import main
from selfplay.config.preset import read_preset
from selfplay.config.run_config import override, read_config
from selfplay.errors import SelfplayError
from selfplay.population.opening import open_sandbox
from selfplay.retention.experiment import RetentionSettings, _students
from selfplay.retention.handicap import weaken
from selfplay.retention.tasks import nano_programs, nano_tasks, read_tasks

SMALL = (
    *("sandbox.workers=1", "rollout.num_generations=3", "learner.r=2", "learner.lora_alpha=4"),
    "learner.target_modules=[q_proj, v_proj]",
)


@pytest.fixture(scope="module")
def students():
    data = read_preset("nano")
    for assignment in SMALL:
        override(data, assignment)
    config = read_config(data)
    settings = RetentionSettings(held_out=12, tasks=12, together=3, handicap=0.4)
    with open_sandbox(config) as sandbox:
        yield _students(config, settings, sandbox, True, None)[0]


def weights(students, place):
    found = students.learner.adapters.parameters_of(place).values()
    return torch.cat([p.detach().flatten() for p in found])


def test_company_and_place_do_not_matter(students) -> None:
    learner = students.learner
    fresh = learner.export(learner.members[2])
    students.start([fresh, fresh], seed=7)
    start = weights(students, 0)
    students.step([0, 1])
    students.step([1])
    both, behind = weights(students, 1), weights(students, 0)
    students.start([fresh], seed=7)
    students.step([0])
    alone = weights(students, 0)
    students.step([0])
    # Adam's first steps take the sign of gradients that may be nothing but rounding.
    assert (alone - behind).norm() < 0.02 * (behind - start).norm()
    assert (weights(students, 0) - both).norm() < 0.05 * (both - behind).norm()


def test_fitness_is_the_score_of_every_held_out_task(students) -> None:
    learner = students.learner
    fresh = learner.export(learner.members[0])
    students.start([fresh, mutate(fresh, "full_gaussian", 1, 0.5)], seed=0)
    one, two, again = *students.fitness([0, 1]), *students.fitness([0])
    assert len(one) == len(two) == 12
    assert one == again
    assert set(one) <= {0.0, 1.0}
    assert sum(one) > 0


def test_too_many_adapters_are_refused(students) -> None:
    adapter = students.learner.export(students.learner.members[0])
    with pytest.raises(SelfplayError, match="4 adapters for a stack of 3"):
        students.start([adapter] * 4, 0)


def test_the_handicap_follows_from_its_seed(tiny) -> None:
    def weakened(amount, seed):
        _, adapters = tiny.stacked()
        weaken(adapters, amount, seed)
        return [layer.base.weight for layer in adapters.layers.values()]

    plain, one, twin, other = weakened(0, 1), weakened(0.5, 1), weakened(0.5, 1), weakened(0.5, 2)
    for a, b, c, d in zip(plain, one, twin, other, strict=True):
        assert torch.equal(b, c)
        assert not torch.equal(b, d)
        assert float((b - a).std() / a.std()) == pytest.approx(0.5, rel=0.1)


def test_tasks_are_kept_apart_and_read_back(tmp_path) -> None:
    tasks = nano_tasks(nano_programs(9, 1), 4, 1)
    assert tasks == nano_tasks(nano_programs(9, 1), 4, 1)
    assert (len(tasks.held_out), len(tasks.practice)) == (4, 5)
    rows = [
        {"kind": t.kind, "program": t.program, "input": t.input, "output": t.output, "status": "ok"}
        for t in (*tasks.held_out, *tasks.practice)
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = read_tasks(path, 4)
    assert [t.program for t in read.held_out] == [t.program for t in tasks.held_out]
    assert not {t.program for t in read.held_out} & {t.program for t in read.practice}
    with pytest.raises(SelfplayError, match="some are left to practise on"):
        read_tasks(path, 9)
    for text in ("no json", '{"kind": "code_o"}', "[]"):
        path.write_text(text)
        with pytest.raises(SelfplayError, match="cannot read tasks"):
            read_tasks(path, 1)


def command(out, *more):
    sets = [part for a in SMALL for part in ("--set", a)]
    small = ["--parents", "1", "--steps", "2", "--held-out", "8", "--warm-up", "2"]
    return CliRunner().invoke(
        main, ["retention", "--out", str(out), *small, "--practice", "1", *sets, *more]
    )


def test_the_command_runs_resumes_and_adds(tmp_path) -> None:
    out = tmp_path / "r"
    first = command(out, "--operators", "svd_structured", "--seeds", "1")
    assert first.exit_code == 0, first.output
    before = (out / "trials.jsonl").read_bytes()
    more = ("--operators", "svd_structured,average", "--treatment", "dare p=0.5", "--seeds", "1")
    second = command(out, *more)
    assert second.exit_code == 0, second.output
    assert "bringing up" in first.stderr
    assert "bringing up" not in second.stderr
    after = (out / "trials.jsonl").read_bytes()
    assert after.startswith(before)
    names = [o.trial.treatment.name for o in read_journal(out / "trials.jsonl").outcomes.values()]
    assert names == ["continued", "reset", "svd_structured", "average", "dare p=0.5"]
    assert "dare p=0.5" in (out / "retention.md").read_text()
    assert json.loads((out / "retention.json").read_text())["items"] == 8


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--operators", "svd_strctured"), "svd_structured"),
        (("--parents", "0"), "at least 1"),
        (("--steps", "1"), "holds"),
        (("--set", "base=other/model"), "--parent DIR"),
        (("--operators", ","), "names none"),
        (("--treatment", "dare p"), "NAME=VALUE"),
    ],
)
def test_wrong_use_is_told_in_one_line(tmp_path, flags, words) -> None:
    run = command(tmp_path / "r", *flags)
    assert run.exit_code == 2
    assert len(run.stderr.splitlines()) == 1
    assert words in run.stderr
