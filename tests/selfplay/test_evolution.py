"""Evolution: the weakest give way to children of those who stay, and their lineage verifies."""

import math
import shutil
from collections import Counter
from types import SimpleNamespace

import pytest
from msgspec import UNSET

from league import League
from lora_evo import LoraEvoError, adapter_hash, content_hash, read_lineage, verify
from selfplay import step
from selfplay.checkpoint import read_checkpoint
from selfplay.errors import SelfplayError
from selfplay.files.layout import open_config
from selfplay.files.record import read_run
from selfplay.step import evolve
from selfplay.training import new_run
from selfplay_command import train_until, worked

UNMEASURED = ("eval.eval_every=0", "eval.same_tasks=0")
STILL = (
    *("learner.learning_rate=0", "learner.teacher_learning_rate=0"),
    *("steps=4", "evolution.evolve_every=1"),
    *("rollout.proposals=1", "rollout.max_proposal_length=4", *UNMEASURED),
)
"""Evolves after every step, and changes nobody in one."""
POOL = ("subspace_rotation", "full_gaussian")
POOLED = (*STILL, f"evolution.mutation=[{', '.join(POOL)}]")


@pytest.fixture(scope="module")
def seen(runs, tmp_path_factory):
    """A run that evolves after its first step: what was alive when, and the births."""
    home = tmp_path_factory.mktemp("uneven") / "run"
    seen = SimpleNamespace(home=home, births=[], at_birth={})
    real = step.evolve

    def watched(run, league, step):
        seen.before = run.population.members
        ranked = {r: league.leaderboard(r) for r in ("teacher", "student")}
        seen.ranking = {r: [row.member for row in rows] for r, rows in ranked.items()}
        births = real(run, league, step)
        seen.births += births
        seen.after = run.population.members
        seen.league = {r: league.members(r) for r in ranked}
        for birth in births:
            member = home / "members" / birth.child
            seen.at_birth[birth.child] = SimpleNamespace(
                held=adapter_hash(run.population.export(birth.child)),
                saved=content_hash(member),
                verified=verify(member, [home / "ancestors"]),
            )
        return births

    sizes = ("steps=2", "teachers=2", "students=4", "league.grace_matches=0", *UNMEASURED)
    crossing = ("evolution.replaced_fraction=0.5", "evolution.crossover_share=1.0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "evolve", watched)
        runs.train(home, *sizes, *crossing, "evolution.evolve_every=1")
    return seen


def test_two_teachers_and_four_students_meet_and_half_are_replaced(runs, seen):
    assert seen.before == ("t0", "t1", "s0", "s1", "s2", "s3")
    assert [b.child for b in seen.births] == ["t2", "s4", "s5"]
    rows = runs.rows(seen.home / "tasks.jsonl")
    for number, names in enumerate((seen.before, seen.after), 1):
        # Every student meets a teacher; every teacher is met.
        met = {(row["teacher"], row["student"]) for row in rows if row["step"] == number}
        assert sorted(student for _, student in met) == sorted(n for n in names if n[0] == "s")
        assert {teacher for teacher, _ in met} == {n for n in names if n[0] == "t"}
    teacher, *students = seen.births
    assert (teacher.operator, len(teacher.parents)) == ("svd_structured", 1)
    for student in students:
        assert (student.operator, len(set(student.parents))) == ("slot_swap", 2)


def test_the_weakest_go_and_the_parents_are_those_who_stay(seen):
    removed = {b.removed for b in seen.births}
    for role, ranking in seen.ranking.items():
        mine = [b for b in seen.births if b.child[0] == role[0]]
        assert {b.removed for b in mine} == set(ranking[-len(mine) :])
        assert all(set(b.parents) <= set(ranking) - removed for b in mine)
    assert set(seen.after) == set(seen.before) - removed | {b.child for b in seen.births}
    assert sorted(n for names in seen.league.values() for n in names) == sorted(seen.after)
    with League(seen.home / "league", read_only=True) as league:
        assert [league.members(r) for r in seen.league] == list(seen.league.values())


def test_a_child_starts_as_it_was_bred_and_its_lineage_survives_training(seen):
    kept = {p.name for p in (seen.home / "ancestors").iterdir()}
    for birth in seen.births:
        born = seen.at_birth[birth.child]
        lineage = read_lineage(seen.home / "members" / birth.child)
        assert born.verified.identical, born.verified.problems
        assert lineage.content_hash == born.saved == born.held
        assert birth.relative_change is None or birth.relative_change >= 0
        assert len(lineage.parents) == len(birth.parents)
        assert {f"{parent}@1" for parent in birth.parents} <= kept


def test_a_child_has_its_first_parents_rate_more_or_less(whole):
    config = open_config(whole)
    rows = read_run(whole).steps
    births = {birth.child: birth for row in rows for birth in row.evolution}
    assert births.keys() == {"t2", "s2"}
    for child, birth in births.items():
        configured = config.learner.learning_rate_of({"t": "teacher", "s": "student"}[child[0]])
        assert birth.learning_rate in (0.8 * configured, 1.2 * configured)
        for row in rows[2:]:
            factor = config.learner.schedule(row.step, config.steps)
            if row.members[child].stepped is not UNSET:  # it had a task that is not held out
                assert row.members[child].learning_rate == factor * birth.learning_rate
    checkpoint = read_checkpoint(whole / "checkpoints" / "step-4")
    assert checkpoint.rates == {child: birth.learning_rate for child, birth in births.items()}


@pytest.fixture
def oldest_first(monkeypatch):
    """The oldest members are replaced, whatever their ratings."""
    monkeypatch.setattr(League, "select", lambda league, role, n: sorted(league.members(role))[:n])


@pytest.fixture
def still(finished, oldest_first):
    """A run of three replacements in each role, by one of two operators."""
    return finished("still", *POOLED)


def test_a_child_of_a_child_says_so_and_verifies_by_the_ancestors_that_are_kept(still):
    lineages = {path.name: read_lineage(path) for path in (still / "members").iterdir()}
    generations = {name: lineage.generation for name, lineage in lineages.items()}
    of_number = enumerate((0, 0, 1, 2, 3))
    assert generations == {f"{role}{n}": g for n, g in of_number for role in "ts"}
    kept = {path.name: read_lineage(path) for path in (still / "ancestors").iterdir()}
    names = [f"{role}{n}@{n}" for n in (1, 2, 3) for role in "ts"]
    assert kept == {name: lineages[name[:2]] for name in names}
    assert verify(still / "members" / "t3", [still / "ancestors"]).identical
    with pytest.raises(LoraEvoError, match="t0 is a founder of its population"):
        verify(still / "members" / "t0")


def test_a_parent_that_is_not_a_number_is_named(runs, tmp_path):
    config = runs.config("eval.eval_every=0", "evolution.evolve_every=1")
    with new_run(config, tmp_path / "run") as run:
        for layer in run.population.learner.adapters.layers.values():
            for place, name in enumerate(run.population.members):
                if name in ("s0", "s1"):
                    layer.lora_B[place].data.fill_(math.nan)
        with pytest.raises(SelfplayError, match=r"^s[01](@1)?: lora_B of .* holds \d+ NaN"):
            evolve(run, run.league, 1)


@pytest.mark.usefixtures("oldest_first")
def test_a_frozen_founder_is_never_replaced(runs, tmp_path):
    settings = ("steps=3", "evolution.evolve_every=1", *UNMEASURED, "rollout.proposals=1")
    frozen = ("teachers=3", "learner.frozen=[t0, s0]")  # and s1 is the fitter of two
    home = runs.train(tmp_path / "run", *settings, *frozen)
    assert [birth.removed for _, birth in read_run(home).births] == ["t1", "t2"]
    for row in runs.rows(home / "metrics.jsonl"):
        learning = {name: m for name, m in row["members"].items() if name not in ("t0", "s0")}
        assert row["tokens"]["trained"] == sum(m.get("tokens", 0) for m in learning.values())


def test_without_the_dead_only_what_verifies_the_living_stays(runs, still, tmp_path):
    whole = runs.outcome(still)
    home = runs.train(tmp_path / "run", *POOLED, "keep_dead=false", "keep_checkpoints=3")

    def adapters():
        return {p.name for name in ("members", "ancestors") for p in (home / name).iterdir()}

    def after_three_replacements():
        assert verify(home / "members" / "t3", [home / "ancestors"]).identical
        assert verify(home / "members" / "s4", [home / "ancestors"]).identical
        found = runs.outcome(home)
        assert all(whole[name] == found[name] for name in found if name != "config.yaml")
        # The checkpoint of step 2 needs t2 and t3, the later ones from t3 and t4.
        kept = ("{}2", "{}3", "{}4", "{}1@1", "{}2@2", "{}3@3")
        assert adapters() == {name.format(role) for name in kept for role in "ts"}

    after_three_replacements()
    for newest in (4, 3):
        shutil.rmtree(home / "checkpoints" / f"step-{newest}")
    worked("resume", "--workers", "1", home, "--quiet")
    after_three_replacements()


def test_operators_are_drawn_from_a_pool(runs, still):
    assert runs.config(*POOLED).evolution.pool("mutation") == POOL
    assert {birth.operator for _, birth in read_run(still).births} == set(POOL)


def test_azr_is_one_member_in_both_roles(runs, tmp_path):
    """It costs as much per adapter as a teacher and a student."""
    agent = runs.train(tmp_path / "run", "mode=azr", "steps=2")
    rows = runs.rows(agent / "metrics.jsonl")
    for row in rows:
        assert row["student_reward"] is not None
        assert list(row["members"]) == ["a0"]
        assert row["members"]["a0"]["tokens"] == row["tokens"]["trained"]
        assert row["evolution"] == []
    assert any(r["members"]["a0"]["stepped"] for r in rows)
    assert [p.name for p in (agent / "members").iterdir()] == ["a0"]
    assert not (agent / "league").exists()
    row = runs.rows(agent / "eval.jsonl")[-1]
    assert (row["member"], row["role"]) == ("a0", "agent")
    assert {"solving", "teaching"} <= set(row)
    tasks = runs.rows(agent / "tasks.jsonl")
    assert Counter(row["step"] for row in tasks) == {1: 2, 2: 2}
    tried = {sum(a["count"] for a in row["attempts"]) for row in tasks if row["status"] == "ok"}
    assert tried == {3}


def test_attempts_at_earlier_tasks_are_sampled_too(runs, tmp_path):
    home = runs.train(tmp_path / "run", "mode=azr", "steps=1", "rollout.max_proposal_length=3")
    for row in runs.rows(home / "metrics.jsonl"):
        assert row["valid_share"] == 0.0
        assert row["tokens"]["sampled"] == row["tokens"]["trained"] > 2 * 3


def test_no_better_member_goes_in_place_of_a_spared_child(runs, tmp_path, capsys):
    three = (*STILL, "steps=3", "teachers=3", "league.grace_matches=2")
    config = runs.config(*three, "evolution.replaced_fraction=0.67")
    train_until(3, config, tmp_path / "run")
    rows = runs.rows(tmp_path / "run" / "metrics.jsonl")
    first, second = ([birth["child"] for birth in row["evolution"]] for row in rows)
    assert first == ["t3", "t4", "s2"]
    assert second == ["s3"]  # students play twice as often
    (line,) = (line for line in capsys.readouterr().err.splitlines() if " is replaced" in line)
    why = "league.grace_matches spares t3, t4 in their first 2 matches"
    assert line.replace("t4, t3", "t3, t4") == f"step 2: no teacher is replaced ({why})"
