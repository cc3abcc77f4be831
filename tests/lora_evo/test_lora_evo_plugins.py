"""The door for other people's operators: found, named, guarded, on record, and never in the way."""

import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from lora_evo import (
    LoraEvoError,
    Operator,
    cross,
    mutate,
    mutate_directory,
    save_adapter,
    verify,
)
from lora_evo.cli import main
from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.plugins import _loaded, _offers, known_operators, plugin, plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "lora_evo" / "plugin"
with_example = pytest.mark.skipif(
    not EXAMPLE.is_dir(), reason="the examples are not beside the tests"
)
ONE_MODULE = """
from lora_evo import Operator, unchanged
def prepare(request):
    return lambda path, slots: unchanged(slots[0])
def make():
    return Operator(name="{name}", kind="mutation", summary="s", preserves="p", prepare=prepare)
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the import path, to install into; the door looks afresh before and after."""
    monkeypatch.delitem(sys.modules, "rank_one_noise", raising=False)
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    forget()
    yield folder
    forget()


def forget():
    """Look for entry points again next time."""
    _offers.cache_clear()
    _loaded.cache_clear()


def install(site, distribution, version, entries, modules=None):
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[lora_evo.operators]", *lines, ""]))
    for name, text in (modules or {}).items():
        (site / f"{name}.py").write_text(text)
    forget()


def install_example(site):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(
        site,
        project["name"],
        project["version"],
        project["entry-points"]["lora_evo.operators"],
        {"rank_one_noise": (EXAMPLE / "rank_one_noise.py").read_text()},
    )


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    save_adapter(make_adapter(1), folder / "p")
    return folder


def call(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@with_example
def test_the_example_works_in_a_process_of_its_own(tmp_path, home):
    site = tmp_path / "target"
    site.mkdir()
    install_example(site)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "lora_evo", *words],
            env=environment, capture_output=True, text=True, check=False, cwd=home,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    rows = {row["name"]: row for row in json.loads(command("operators", "--json"))}
    assert rows["rank_one_noise"]["origin"] == {
        "distribution": "rank-one-noise",
        "version": "0.1.0",
    }
    assert rows["svd_structured"]["origin"] is None
    assert rows["rank_one_noise"]["parameters"] == {"spread": "all"}
    made = json.loads(
        command("mutate", "rank_one_noise", "p", "--out", "c", "--seed", "1", "--strength", "0.2",
                "--set", "spread=one", "--threads", "2", "--json")
    )  # fmt: skip
    assert made["plugin"] == "rank-one-noise"
    assert made["versions"]["rank-one-noise"] == "0.1.0"
    assert made["relative_change"] == pytest.approx(0.2, rel=1e-6)
    assert "identical" in command("verify", "c")
    forget()
    missing = call("verify", "c", code=2).stderr
    assert "comes with the plug-in rank-one-noise 0.1.0, which is not installed here" in missing
    assert "there is no operator 'rank_one_noise'" in call(
        "mutate", "rank_one_noise", "p", "--out", "d", "--seed", 1, code=2
    ).stderr  # fmt: skip


@with_example
def test_the_example_does_what_it_says(site, make_adapter):
    install_example(site)
    parent = make_adapter(3, dtype=torch.float64)
    for spread in ("all", "one"):
        child = mutate(parent, "rank_one_noise", 5, 0.3, spread=spread)
        for path, slot in child.slots.items():
            old = parent.slots[path]
            assert torch.equal(slot.B, old.B)
            step = slot.scale * (slot.B @ slot.A - old.B @ old.A)
            size = torch.linalg.norm(old.scale * old.B @ old.A)
            assert torch.linalg.norm(step) / size == pytest.approx(0.3, rel=1e-9)
            assert torch.linalg.matrix_rank(step) == 1
    same = mutate(parent, "rank_one_noise", 5, 0)
    assert all(torch.equal(same.slots[path].A, slot.A) for path, slot in parent.slots.items())
    fresh = make_adapter(3, zero=True)
    still = mutate(fresh, "rank_one_noise", 5)
    assert all(torch.equal(still.slots[path].A, slot.A) for path, slot in fresh.slots.items())
    with pytest.raises(LoraEvoError, match=r"^spread is 'two'"):
        mutate(parent, "rank_one_noise", 5, spread="two")
    with pytest.raises(LoraEvoError, match="did you mean 'spread'"):
        mutate(parent, "rank_one_noise", 5, spraed="all")


def test_nothing_is_imported_until_it_is_wanted_and_then_once(site, make_adapter):
    text = ONE_MODULE.format(name="lazy") + "\nimport builtins\nbuiltins.lazy_loads.append(1)\n"
    install(site, "lazy-dist", "1.0", {"lazy": "lazy_module:make"}, {"lazy_module": text})
    import builtins

    builtins.lazy_loads = []
    try:
        mutate(make_adapter(1), "svd_structured", 1)
        assert builtins.lazy_loads == []
        mutate(make_adapter(1), "lazy", 1)
        mutate(make_adapter(1), "lazy", 2)
        assert plugin("lazy").operator is known_operators()["lazy"]
        assert builtins.lazy_loads == [1]
    finally:
        del builtins.lazy_loads


BROKEN = {
    "raises": ("raise RuntimeError('no luck\\ntoday')", "RuntimeError: no luck today"),
    "leaves": ("raise SystemExit(3)", "SystemExit: 3"),
    "is_number": ("make = 3", "is a int; expected a lora_evo.Operator"),
    "makes_text": ("def make(): return 'x'", "is a str; expected a lora_evo.Operator"),
    "other_name": (ONE_MODULE.format(name="another"), "an operator called 'another'"),
    "no_attribute": ("x = 1", "AttributeError"),
    "bad_operator": (ONE_MODULE.replace("mutation", "mutant").format(name="b"), "kind 'mutant'"),
}


def test_broken_plugins_are_named_with_their_cause_and_harm_nobody(site, home):
    modules = {f"broken_{name}": text for name, (text, _) in BROKEN.items()}
    install(
        site, "broken-dist", "0.3", {n: f"broken_{n}:make" for n in [*BROKEN, "absent"]}, modules
    )
    install(
        site, "good-dist", "1.0", {"good": "good:make"}, {"good": ONE_MODULE.format(name="good")}
    )
    causes = {**{name: cause for name, (_, cause) in BROKEN.items()}, "absent": "No module named"}
    assert {p.name for p in plugins()} == {*causes, "good"}
    out = call("operators").stdout
    rows = {row["name"]: row for row in json.loads(call("operators", "--json").stdout)}
    assert set(OPERATORS) < set(rows)
    for name, cause in causes.items():
        assert cause in rows[name]["problem"]
        assert rows[name]["origin"] == {"distribution": "broken-dist", "version": "0.3"}
        assert "\n" not in rows[name]["problem"]
        refusal = call("mutate", name, "p", "--out", "c", "--seed", 1, code=2).stderr
        assert "plug-in broken-dist 0.3 cannot be used" in refusal
        assert cause in refusal
        assert cause in out
    assert rows["good"]["problem"] is None
    call("mutate", "good", "p", "--out", "c", "--seed", 1)
    call("mutate", "svd_structured", "p", "--out", "d", "--seed", 1)


def test_a_plugin_never_shadows_a_builtin_nor_another_plugin(site, make_adapter):
    text = ONE_MODULE.format(name="svd_structured")
    install(site, "shadow", "1", {"svd_structured": "shadow:make"}, {"shadow": text})
    install(site, "one", "1", {"twin": "twin:make"}, {"twin": ONE_MODULE.format(name="twin")})
    install(site, "two", "2", {"twin": "twin:make"})
    assert known_operators() == OPERATORS
    assert "a built-in operator has this name" in plugin("svd_structured").problem
    plain = make_adapter(1)
    path = plain.paths[0]
    assert not torch.equal(mutate(plain, "svd_structured", 1).slots[path].A, plain.slots[path].A)
    with pytest.raises(
        LoraEvoError, match=r"plug-in one 1 .*two 2 offers an operator of this name"
    ):
        mutate(plain, "twin", 1)
    assert "twin" in call("operators").stdout


def test_names_are_suggested_from_plugins_too(site, make_adapter):
    install(
        site, "good", "1", {"sharpen": "good2:make"}, {"good2": ONE_MODULE.format(name="sharpen")}
    )
    with pytest.raises(LoraEvoError, match="did you mean 'sharpen'"):
        mutate(make_adapter(1), "sharpne", 1)
    with pytest.raises(LoraEvoError, match="sharpen is a mutation"):
        cross([make_adapter(1), make_adapter(2)], "sharpen", 1)


FAULTY = """
from lora_evo import Operator, Slot, SlotChild, unchanged
def on(name, prepare):
    return Operator(name=name, kind="mutation", summary="s", preserves="p", prepare=prepare)
def late(request):
    def recipe(path, slots):
        if "layers.1" in path:
            raise KeyError("oops")
        return unchanged(slots[0])
    return recipe
def narrow(request):
    def recipe(path, slots):
        child = unchanged(slots[0])
        return SlotChild(**{**vars(child), "slot": Slot(slots[0].A[:1], slots[0].B, 2.0)})
    return recipe
EARLY = on("early", lambda request: 1 / 0)
LATE = on("late", late)
NARROW = on("narrow", narrow)
BARE = on("bare", lambda request: lambda path, slots: slots[0])
def telling(name, **told):
    def prepare(request):
        return lambda path, slots: SlotChild(**{**vars(unchanged(slots[0])), **told})
    return on(name, prepare)
ENDLESS = telling("endless", relative_change=float("nan"))
NEGATIVE = telling("negative", truncation_loss=-1.0)
HALF = telling("half", rank=2.5)
ORPHAN = telling("orphan", source=1)
PERHAPS = telling("perhaps", moments_valid="yes")
WHOLE = telling("whole", slot=Slot([1], [1], 1.0))
"""


def test_faults_while_running_are_one_line_and_leave_nothing(site, home):
    faults = {
        "early": "while it was prepared: ZeroDivisionError",
        "late": "failed at model.layers.1.self_attn.q_proj: KeyError: 'oops'",
        "narrow": "its A is [1, 24]; expected [4, 24]",
        "bare": "it is a Slot; expected a SlotChild",
        "endless": "its relative_change is nan",
        "negative": "its truncation_loss is -1.0",
        "half": "its rank is 2.5",
        "orphan": "its source is 1",
        "perhaps": "its moments_valid is 'yes'",
        "whole": "its A is list; expected floats",
    }
    install(
        site, "faulty-dist", "2.1", {n: f"faulty:{n.upper()}" for n in faults}, {"faulty": FAULTY}
    )
    for name, words in faults.items():
        refusal = call("mutate", name, "p", "--out", "c", "--seed", 1, code=2).stderr
        assert words in refusal
        assert f"{name} (faulty-dist 2.1)" in refusal
        assert len(refusal.splitlines()) == 1
    assert sorted(path.name for path in home.iterdir()) == ["p"]


@with_example
def test_verification_after_the_plugin_changed(site, home):
    install_example(site)
    mutate_directory("rank_one_noise", home / "p", home / "c", seed=1)
    assert verify(home / "c").identical

    def release(version, text):
        for info in site.glob("*.dist-info"):
            (info / "METADATA").write_text(f"Name: rank-one-noise\nVersion: {version}\n")
        (site / "rank_one_noise.py").write_text(text)
        sys.modules.pop("rank_one_noise", None)
        importlib.invalidate_caches()
        forget()

    text = (EXAMPLE / "rank_one_noise.py").read_text()
    release("0.2.0", text)
    assert verify(home / "c").identical
    release("0.30.0", text.replace('"x"', '"another"'))
    result = verify(home / "c")
    assert not result.identical
    assert "rank-one-noise 0.1.0" in result.problems[-1]
    assert "rank-one-noise 0.30.0" in result.problems[-1]


def test_a_distribution_without_metadata_has_no_name(site, make_adapter):
    install(
        site, "good", "1", {"gentle": "good3:make"}, {"good3": ONE_MODULE.format(name="gentle")}
    )
    (site / "good-1.dist-info" / "METADATA").unlink()
    forget()
    assert mutate(make_adapter(1), "gentle", 1).paths
    assert (plugin("gentle").distribution, plugin("gentle").version) == (
        "a distribution without a name",
        "?",
    )


@with_example
def test_the_object_of_a_plugin_is_as_good_as_its_name(site, home, make_adapter):
    install_example(site)
    fields = {"kind": "mutation", "summary": "s", "preserves": "p", "prepare": lambda request: None}
    other = Operator(name="rank_one_noise", **fields)
    with pytest.raises(LoraEvoError, match="of the plug-in rank-one-noise, but is another"):
        mutate(make_adapter(1), other, 1)
    known = known_operators()["rank_one_noise"]
    assert mutate_directory(known, home / "p", home / "d", seed=1).plugin == "rank-one-noise"
    assert verify(home / "d").identical
