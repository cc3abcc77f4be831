"""Which adapters a spec names, the roles that they have, and the means that are taken of them."""

import json
import shutil

import pytest
from evals_commands import run
from json_lines import write_rows
from sums import GOLD, TableEngine, sums

from evals import EvalsError, Group, evaluate, find_members, read_runs
from evals.side_by_side import table_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory, make_adapter, model_folder):
    """A folder of runs: `mine` (s1 replaced by s2), `azr`, `a:b`; and an adapter of no run."""
    home = tmp_path_factory.mktemp("runs")
    named = {"mine": ("s0", "s1", "s2", "t0", "t1"), "azr": ("a0",), "a:b": ("s0", "t0")}
    for run_name, members in named.items():
        for seed, member in enumerate(members):
            make_adapter(home / run_name / "members" / member, seed, base=str(model_folder))
    (home / "mine" / "league").mkdir()
    replaced = {"event": "member_replaced", "member": "s1", "child": "s2"}
    (home / "mine" / "league" / "events.jsonl").write_text(json.dumps(replaced) + "\n")
    make_adapter(home / "plain", 9, base=str(model_folder))
    make_adapter(home / "x:students", 10, base=str(model_folder))
    return home


def groups_of(home, *specs):
    """Names with role and run, of specs that have HOME for the folder of runs."""
    members = find_members([spec.replace("HOME", str(home)) for spec in specs])
    assert members.folders.keys() == members.groups.keys()
    return {n: None if g is None else (g.role, g.run) for n, g in members.groups.items()}


STUDENT, TEACHER = ("student", "mine"), ("teacher", "mine")


@pytest.mark.parametrize(
    ("specs", "wanted"),
    [
        (["HOME/mine"], {"s0": STUDENT, "s2": STUDENT, "t0": TEACHER, "t1": TEACHER}),
        (["HOME/mine:students"], {"s0": STUDENT, "s2": STUDENT}),
        (["HOME/mine:teacher"], {"t0": TEACHER, "t1": TEACHER}),
        (["HOME/mine:s1"], {"s1": STUDENT}),
        (["HOME/mine:t1, s0"], {"t1": TEACHER, "s0": STUDENT}),
        (["HOME/mine:teachers,s0"], {"t0": TEACHER, "t1": TEACHER, "s0": STUDENT}),
        (["HOME/mine:s0", "HOME/mine:students"], {"s0": STUDENT, "s2": STUDENT}),
        (["HOME/azr:agent"], {"a0": ("agent", "azr")}),
        (["HOME/a:b:students"], {"s0": ("student", "a:b")}),
        (["HOME/x:students"], {"x:students": None}),
        (["best=HOME/mine:s0"], {"best": STUDENT}),
        (["pop=HOME/mine:students"], {"pop-s0": ("student", "pop"), "pop-s2": ("student", "pop")}),
        (["HOME/mine:s0", "HOME/a:b:students"], {"s0": STUDENT, "a-b-s0": ("student", "a:b")}),
        (["it=HOME/mine/members/t0"], {"it": TEACHER}),
        (["HOME/mine:s0", "again=HOME/mine/members/s0"], {"s0": STUDENT, "again": None}),
    ],
)
def test_a_spec_names_adapters_and_their_groups(runs, specs, wanted):
    if specs == ["HOME/x:students"]:  # a folder with a colon needs a name that can be a folder's
        with pytest.raises(EvalsError, match="cannot be an adapter's name"):
            groups_of(runs, *specs)
        specs, wanted = ["x=HOME/x:students"], {"x": None}
    assert groups_of(runs, *specs) == wanted


def test_a_folder_is_found_and_the_base_is_the_first_runs(runs, model_folder):
    members = find_members([str(runs / "plain"), f"best={runs / 'mine'}:s2"])
    assert members.base == str(model_folder)
    assert members.folders["best"].samefile(runs / "mine" / "members" / "s2")
    assert find_members([str(runs / "plain")]).base is None
    assert find_members([]).folders == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("HOME/mine:s9", "mine has no 's9'; it holds students s0, s2 and teachers t0, t1"),
        ("HOME/mine:../../plain", "has no '../../plain'; it holds"),
        ("HOME/azr:students", "azr has no 'students'; it holds agent a0"),
        ("HOME/plain:students", "plain is not a selfplay run"),
        ("NAME=HOME/nowhere", "no adapter folder"),
        ("a b=HOME/mine:students", "'a b-s0' cannot be an adapter's name"),
    ],
)
def test_a_wrong_spec_is_one_line_that_says_what_there_is(runs, spec, message):
    with pytest.raises(EvalsError) as caught:
        find_members([spec.replace("HOME", str(runs))])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_runs_in_folders_of_one_name_are_told_apart(runs, tmp_path, make_adapter):
    for place in "pq":
        shutil.copytree(runs / "mine", tmp_path / place / "out")
    groups = find_members([str(tmp_path / place / "out") for place in "pq"]).groups
    assert [name for name in groups if name.endswith("s0")] == ["s0", "q-out-s0"]
    assert {group.run for group in groups.values() if group} == {"out", "q/out"}


def test_the_living_are_in_order_whatever_a_killed_run_left(tmp_path, make_adapter):
    home = tmp_path / "run"
    for i, name in enumerate(("s10", "s2", "t0", "s0")):
        make_adapter(home / "members" / name, i + 1, base="one/model")
    (home / "league").mkdir()
    replaced = {"event": "member_replaced", "member": "s0", "child": "s2"}
    (home / "league" / "events.jsonl").write_text(json.dumps(replaced) + '\n{"event": "memb')
    (home / "members" / ".s3.part").mkdir()
    found = find_members([str(home)])
    assert (list(found.folders), found.base) == (["s2", "s10", "t0"], "one/model")
    make_adapter(home / "members" / "s3", 9, base="other/model")
    with pytest.raises(EvalsError, match="name different base models"):
        find_members([str(home)])


def test_a_run_is_averaged_by_role(runs, model_folder, tmp_path):
    rows = [{"question": f"{a} + {a}?", "answer": f"#### {2 * a}"} for a in range(1, 4)]
    data = write_rows(tmp_path / "gsm8k", rows)
    out = tmp_path / "out"
    asked = ("--benchmark", "gsm8k", "--data", data, "--recipe", "azr", "--max-tokens", 4)
    done = run("run", "--adapter", runs / "mine", *asked, "--base", "--out", out)
    assert done.exit_code == 0, done.output
    by_role = [
        *("base", "s0", "s2", "mean of 2 students", "weakest student", "best student"),
        *("t0", "t1", "mean of 2 teachers", "weakest teacher", "best teacher"),
    ]
    labels = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert [label for label in labels if set(label) != {"-"}][1:12] == by_role
    results = {path: json.loads(path.read_text()) for path in out.rglob("result.json")}
    groups = {row["adapter"]: row["group"] for row in results.values()}
    assert groups["s0"] == {"role": "student", "run": "mine"}
    assert groups["base"] is None
    roles = [run.row()["role"] for run in read_runs(out)]
    assert roles == [None, *["student"] * 2, *["teacher"] * 2]
    table = json.loads(run("report", out, "--json").stdout)["table"]["rows"]
    means = {row["label"]: row["group"] for row in table if row["kind"] == "mean"}
    assert means["mean of 2 students"] == {"role": "student", "run": "mine"}


def evaluated(out, groups, base=False):
    adapters = [*([None] if base else []), *groups]
    evaluate(TableEngine(GOLD), sums(), adapters, groups=groups, limit=4, out=out)


def means(*folders):
    table = table_of(read_runs(*folders))[1]
    return [line[0].label for line in table.lines if line[0].kind == "mean"]


def test_results_of_two_folders_are_not_averaged_together(tmp_path):
    students = {f"s{i}": Group("student", "mine") for i in range(2)}
    evaluated(tmp_path / "p", students, base=True)
    evaluated(tmp_path / "q", students | {"s2": Group("student", "mine")}, base=True)
    assert means(tmp_path / "p") == ["mean of 2 students"]
    both = means(tmp_path / "p", tmp_path / "q")
    assert both == ["mean of 2 students of mine (p)", "mean of 3 students of mine (q)"]
    lines = [line[0] for line in table_of(read_runs(tmp_path))[1].lines]
    assert [row.label for row in lines if row.kind == "base"] == ["base (p)", "base (q)"]
    one, two = ({f"s{i}": Group("student", home)} for i, home in enumerate(("one", "two")))
    evaluated(tmp_path / "r", one | two | {"s7": None, "plain": None})
    assert means(tmp_path / "r") == ["mean of 2 adapters"]
