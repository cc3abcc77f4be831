"""Runs kept as rows: equal numbers with and without the directories, and what is refused."""

import shutil

import pytest
import yaml
from json_lines import read_rows, write_rows

from selfplay.experiments.comparison import compare, of_pair
from selfplay.experiments.experiment import open_home, open_plan
from selfplay.experiments.measures import GAINS
from selfplay_command import command, refused
from synthetic_run import write_experiment

SETTINGS = {
    "question": "Is it so?",
    "set": {"steps": 20, "eval.eval_every": 5, "eval.tasks": 60},
    "seeds": [1, 2, 3],
    "curves": {"solved": "curves_of_mine:solved"},
}
CURVES = """def solved(run):
    return {step.step: step.solve_rate for step in run.steps if step.solve_rate is not None}
"""


ARMS = {"weak": {"gain": 0.1}, "strong": {"gain": 0.3}, "mine": {"gain": 0.2}}
"""What is planted in each arm."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A folder with an experiment of three arms, one with the runs of an arm, and the runs of the
    other two, kept."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "curves_of_mine.py").write_text(CURVES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pairs = [["mine", "weak"], ["mine", "strong"]]
        whole = begun(folder / "whole", ARMS, contrasts=pairs)
        write_experiment(open_plan(str(whole / "plan.yaml")), whole, ARMS)
        part(whole, "mine", "mine")
        others = part(whole, "others", "weak", "strong")
        result = command("compare", others, "--keep", "kept.jsonl")
    assert (result.exit_code, result.stderr) == (0, "6 runs kept\n")
    return folder


@pytest.fixture
def whole(planted, tmp_path, monkeypatch):
    """The experiment of three arms, in the working directory with all that is beside it."""
    shutil.copytree(planted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "whole"


def begun(home, arms, **changes):
    """Return the directory of an experiment without runs."""
    plan = home.with_name(f"{home.name}.yaml")
    settings = SETTINGS | {"name": home.name, "arms": {arm: {} for arm in arms}} | changes
    plan.write_text(yaml.safe_dump(settings, sort_keys=False))
    open_home(open_plan(str(plan)), home)
    return home


def part(whole, name, *arms, **changes):
    """Return an experiment of its own with the runs of some arms."""
    home = begun(whole.with_name(name), arms, **changes)
    for arm in arms:
        shutil.copytree(whole / arm, home / arm)
    return home


@pytest.fixture
def mine(whole):
    return whole.with_name("mine")


@pytest.fixture
def kept(whole):
    return whole.with_name("kept.jsonl")


def test_a_kept_run_has_the_numbers_of_its_directory(whole, mine, kept):
    numbers, beside = compare([whole]).numbers(), compare([mine], kept).numbers()
    for table, columns in beside.items():
        assert columns.keys() == numbers[table].keys()
        for title, column in columns.items():
            for name in (*GAINS, "solved, last third"):
                one, other = column[name], numbers[table][title][name]
                assert one.value == pytest.approx(other.value, abs=2e-5)
                assert one.low == pytest.approx(other.low, abs=1e-4)
                assert one.seeds == other.seeds == 3


def test_a_shorter_run_is_compared_at_its_own_steps(whole, mine, kept):
    for path in (*mine.glob("mine/*/metrics.jsonl"), *mine.glob("mine/*/eval.jsonl")):
        write_rows(path, [row for row in read_rows(path) if row["step"] <= 10])
    compared = compare([mine], kept)
    short, other = (
        {seed: run.until(10) for seed, run in compare([whole]).arms[arm].items()}
        for arm in ("mine", "weak")
    )
    name = "gain, population mean, at the end"
    expected = of_pair(short, other)[name].value
    difference = compared.numbers()["differences"]["mine − weak"][name]
    assert difference.value == pytest.approx(expected, abs=2e-5)
    said = "kept runs have 20 steps, of which the first 10 are compared"
    assert any(said in line for line in compared.lines())


def test_a_run_that_is_not_finished_is_not_kept(mine):
    for name in ("metrics.jsonl", "eval.jsonl"):
        path = mine / "mine" / "seed-2" / name
        write_rows(path, [row for row in read_rows(path) if row["step"] <= 10])
    assert command("compare", mine, "--keep", "mine.jsonl").stderr == "2 runs kept\n"
    file = mine.with_name("mine.jsonl")
    assert [row["seed"] for row in read_rows(file)] == [1, 3]
    before = file.read_bytes()
    for path in (*mine.glob("mine/*/metrics.jsonl"), *mine.glob("mine/*/eval.jsonl")):
        write_rows(path, [row for row in read_rows(path) if row["step"] <= 10])
    assert command("compare", mine, "--keep", file).stderr == "0 runs kept\n"
    assert file.read_bytes() == before, "nothing is no reason to lose what was kept"


def test_a_run_that_was_judged_in_part_is_not_kept(mine):
    path = mine / "mine" / "seed-2" / "metrics.jsonl"
    first, *rest = read_rows(path)
    write_rows(path, [first | {"infra_errors": {"proposals": 0, "attempts": 2}}, *rest])
    said = "seed-2: Not judged, and in no number: 2 attempts"
    refused(command("compare", mine, "--keep", "mine.jsonl"), said)
    assert not mine.with_name("mine.jsonl").exists()


def test_what_cannot_be_compared_or_read_is_one_line(whole, mine, kept):
    def says(*words, said):
        refused(command("compare", *words), said)

    other = part(whole, "other", "mine")
    for path in other.glob("mine/*/config.yaml"):
        path.write_text(path.read_text().replace("  samples: ", "  samples: 1"))
    says(other, "--with", kept, said="eval.samples is 1")
    rows = list(read_rows(kept))
    write_rows(kept.with_name("better.jsonl"), [row | {"base": row["base"] + 0.02} for row in rows])
    says(mine, "--with", "better.jsonl", said="seed 1: it is another base")
    says(whole, "--with", kept, said="are both called 'weak'; rename yours")
    folder = kept.with_name("folder")
    folder.mkdir()
    for name in ("one.jsonl", "two.jsonl"):
        write_rows(folder / name, rows)
    assert compare([mine], folder).numbers() == compare([mine], kept).numbers()
    write_rows(folder / "two.jsonl", [row | {"base": row["base"] + 0.002} for row in rows])
    says(mine, "--with", folder, said="folder has two different kept runs of 'weak', seed 1; give")
    says(mine, "--with", "none.jsonl", said="none.jsonl has no kept runs; expected a file")
    lost = part(whole, "lost", "mine", curves={"a": "curves_of_mine:nothing"})
    says(lost, said="curves.a: curves_of_mine")
    kept.write_text('{"arm": 3}\n')
    says(mine, "--with", kept, said="kept.jsonl, line 1: field arm: expected `str`, got `int`")
