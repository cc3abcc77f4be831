"""The corpus of hostile programs and their benign look-alikes, through the sandbox and the CLI."""

import sys
import tomllib
from pathlib import Path

import pytest

from code_verifier import Limits, Proposal, Sandbox, Status, Task

CORPUS = Path(__file__).parent / "corpus"
GREEDY = ("hostile_cpu", "hostile_memory", "hostile_processes", "hostile_recursion")
STATUSES = {value for name, value in vars(Status).items() if name.isupper()}


def rows(name, *tables):
    """The entries of these tables of one file, each with the fields of `default` and of its table's
    in `default_of`, and by default named after its program. A field `x_repeated = [text, times]` is
    short for a long field x. What is `constant_since` a version of Python is ok there."""
    read = tomllib.loads((CORPUS / f"{name}.toml").read_text("utf-8"))
    shared = {t: read.get("default", {}) | read.get("default_of", {}).get(t, {}) for t in tables}
    entries = [shared[t] | entry for t in tables for entry in read[t]]
    for entry in entries:
        for key in [key for key in entry if key.endswith("_repeated")]:
            text, times = entry.pop(key)
            entry[key.removesuffix("_repeated")] = text * times
        entry.setdefault("name", entry.get("program"))
        if sys.version_info >= tuple(entry.get("constant_since", (99,))):
            entry["status"] = [Status.OK]
    return entries


def families(prefix):
    return sorted(path.stem for path in CORPUS.glob(f"{prefix}_*.toml"))


HOSTILE = {name: rows(name, "program") for name in families("hostile")}
BENIGN = {name: rows(name, "program") for name in families("benign")}


@pytest.fixture(scope="module")
def strict():
    """For programs that take whatever they can get."""
    with Sandbox(workers=2, limits=Limits(wall_s=1.0, cpu_s=0.6, memory_mb=64)) as opened:
        yield opened


@pytest.fixture(scope="module")
def brief():
    """For programs that would never end."""
    with Sandbox(workers=2, limits=Limits(wall_s=1.0, cpu_s=0.1, memory_mb=64)) as opened:
        yield opened


def pairs(entries):
    return [(entry["program"], entry.get("input", "1")) for entry in entries]


def test_the_corpus_is_large_and_well_formed():
    assert sum(map(len, HOSTILE.values())) >= 400
    assert sum(map(len, BENIGN.values())) >= 180
    for entry in (entry for entries in HOSTILE.values() for entry in entries):
        assert entry["status"]
        assert set(entry["status"]) <= STATUSES - {Status.SANDBOX_ERROR}
    harmless = [
        entry["name"]
        for entries in HOSTILE.values()
        for entry in entries
        if "ok" in entry["status"] and "constant_since" not in entry
    ]
    assert len(harmless) == 11  # they see the interpreter's insides, and give the same every time


@pytest.mark.parametrize("family", HOSTILE)
def test_no_hostile_program_is_accepted(family, sandbox, strict, brief):
    judge = strict if family in GREEDY else sandbox
    judge = brief if family == "hostile_cpu" else judge
    late = {Status.TIMEOUT} if family in GREEDY else set()  # where a busy machine takes long
    entries = HOSTILE[family]
    wrong = [
        f"{entry['name']}: {verdict.status} {verdict.output} ({verdict.reason})"
        for entry, verdict in zip(entries, judge.check_many(pairs(entries)), strict=True)
        if verdict.status not in late.union(entry["status"])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("family", BENIGN)
def test_no_benign_program_is_refused(family, sandbox):
    entries = BENIGN[family]
    wrong = [
        f"{entry['name']}: {verdict.status} {verdict.output} ({verdict.reason})"
        for entry, verdict in zip(entries, sandbox.check_many(pairs(entries)), strict=True)
        if (verdict.status, verdict.output) != ("ok", entry["output"])
        or not 2 <= verdict.runs <= entry.get("runs", 16)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_program_sees_what_another_left(one):
    entries = rows("state", "pair")
    assert len(entries) >= 30
    calls = [
        (entry[part], entry["input"]) for entry in entries for part in ("look", "poison", "look")
    ]
    verdicts = list(one.run_many(calls))  # all in children of one server
    wrong = []
    for number, entry in enumerate(entries):
        before, _, after = verdicts[3 * number : 3 * number + 3]
        if not before.output == after.output == entry["output"]:
            wrong.append(f"{entry['name']}: {before.output}, then {after} != {entry['output']}")
    assert not wrong, "\n".join(wrong)


def test_answers_get_their_scores():
    entries = rows("answers", "value", "input", "program")
    pairs = ((Task.from_row(entry), entry["answer"]) for entry in entries)
    with Sandbox(workers=2, limits=Limits(wall_s=30.0, cpu_s=0.6, memory_mb=64)) as sandbox:
        grades = list(sandbox.grade_many(pairs))
    wrong = [
        f"{entry['kind']}, {entry['name']}: {grade}"
        for entry, grade in zip(entries, grades, strict=True)
        if grade.score != entry["score"] or not grade.reason
    ]
    assert not wrong, "\n".join(wrong)


def test_proposals_get_their_status(sandbox):
    entries = rows("proposals", "proposal", "message")
    proposals = [
        Proposal(
            entry["kind"],
            entry["program"],
            input=entry.get("input"),
            inputs=tuple(entry.get("inputs", ())),
            message=entry.get("message", ""),
        )
        for entry in entries
    ]
    wrong = []
    for entry, found in zip(entries, sandbox.validate_many(proposals), strict=True):
        good = found.status == entry["status"]
        explained = found.task is not None if found.status == Status.OK else bool(found.reason)
        if not (good and explained):
            wrong.append(f"{entry['name']}: {found.status} ({found.reason})")
    assert not wrong, "\n".join(wrong)
