"""Addresses: programs that show one, the machine code that scrambles and notes them, and what
happens on machines without it."""

import platform
import random
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from meanwhile import serving_after

from code_verifier import Limits, Sandbox, Status, pool
from code_verifier.jail import addresses

_FILE = Path(__file__).parent / "corpus" / "addresses.toml"
PARTS = tomllib.loads(_FILE.read_text(encoding="utf-8"))
HEAD = PARTS["head"]
"""Classes, functions and aliases that show no address of themselves."""
OBJECTS = PARTS["objects"].strip().replace("\n", " | ").split(" | ")
DIGITS = r"re.search(r'0x([0-9a-f]+)', {})[1]"


def program(rng, value):
    """A program that returns something of the digits that the text of a value shows."""
    shown = rng.choice(PARTS["texts"]).format(rng.choice(PARTS["boxes"]).format("value"))
    result = rng.choice(PARTS["ends"]).format(DIGITS.format("text"))
    return f"{HEAD}def f(x):\n    value = {value}\n    text = {shown}\n    return {result}"


@pytest.mark.parametrize(
    ("rounds", "seed"), [(1, 1), pytest.param(8, 2, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_no_program_that_shows_an_address_is_accepted(sandbox, rounds, seed):
    rng = random.Random(seed)
    texts = [program(rng, value) for value in OBJECTS * rounds]
    verdicts = list(sandbox.check_many((text, "5") for text in texts))
    wrong = [
        f"{text[len(HEAD) :]}\n{verdict}"
        for text, verdict in zip(texts, verdicts, strict=True)
        if verdict.status != Status.NONDETERMINISTIC
    ]
    assert not wrong, "\n".join(wrong)


def test_it_is_the_address_that_gets_sixteen_executions(sandbox):
    runs = {}
    for value in ("x", "str(x)", "kept", "str(kept)[:14]", "[print(kept), 1][1]", "len(f'{kept}')"):
        verdict = sandbox.check(
            f"{HEAD}def f(x):\n    value = {value}\n    return repr(value)[:9]", "5"
        )
        assert verdict.ok, verdict
        runs[value] = verdict.runs
    assert runs == {
        "x": 2,
        "str(x)": 2,
        "kept": 16,
        "str(kept)[:14]": 16,
        "[print(kept), 1][1]": 2,  # there is nothing to print to
        "len(f'{kept}')": 16,
    }


def test_an_address_that_only_a_later_execution_shows_counts():
    """The second has a thirty-second less memory; with more, none shows one."""
    text = (
        f"{HEAD}def f(x):\n    try:\n        return len(bytes(1004 << 20)) > 3\n"
        "    except MemoryError:\n        return len(str(kept)) > 3"
    )
    for memory, runs in ((1024, 16), (4096, 2)):
        with Sandbox(workers=1, limits=Limits(memory_mb=memory)) as sandbox:
            verdict = sandbox.check(text, "1")
        assert (verdict.status, verdict.runs) == (Status.OK, runs)


SOURCE = Path(addresses.__file__).with_suffix(".S")
ROUTINES = ("hash", "none", "id", "text", "kinds")
NAMES = ("SEEN", "FACTOR", "OLD", "NONE", "INTEGER", "FORMAT", "PRINT")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_machine_code_is_that_of_its_source(machine, tmp_path):
    prefixes = [f"{machine}-linux-gnu-", *([""] if platform.machine() == machine else [])]
    prefix = next(
        (p for p in prefixes if shutil.which(f"{p}as") and shutil.which(f"{p}objcopy")), None
    )
    if prefix is None:
        pytest.skip(
            f"no assembler for {machine}: install binutils-{machine.replace('_', '-')}-linux-gnu"
        )
    values = {name: 0x0123456789ABCDEF + number for number, name in enumerate(NAMES)}
    values["TOP"] = addresses._TOP
    symbols = [f"{name}={value}" for name, value in values.items()]
    symbols += ["AARCH64=1"] if machine == "aarch64" else []
    built, code = tmp_path / "addresses.o", tmp_path / "addresses.bin"
    words = [word for symbol in symbols for word in ("--defsym", symbol)]
    subprocess.run([f"{prefix}as", *words, "-o", built, SOURCE], check=True)
    subprocess.run([f"{prefix}objcopy", "-O", "binary", "-j", ".text", built, code], check=True)
    routines = [addresses.routine(machine, name, values) for name in ROUTINES]
    assert code.read_bytes() == b"".join(r + bytes(-len(r) % 16) for r in routines)


LACKING = {
    "unknown machine": "m.addresses._CODE.clear()",
    "broken code": "m.addresses._FORMAT = b'%#lo'",
    "code that crashes": "m.addresses._CODE[m.os.uname().machine]['id'] = '00' * 16",
}
"""Causes for which a server cannot scramble addresses."""


@pytest.fixture(params=LACKING)
def without(request, monkeypatch):
    serving_after(monkeypatch, LACKING[request.param])
    monkeypatch.setattr(pool, "_lacking", {"addresses"})  # no warning
    with Sandbox(workers=1, limits=Limits(wall_s=30.0, cpu_s=10.0)) as sandbox:
        yield sandbox


def test_a_machine_where_addresses_cannot_be_scrambled_says_so(without):
    assert without.missing_determinism() == ("addresses",)
    assert without.check("def f(x):\n    return id(1)", "1").status == Status.NONDETERMINISTIC


@pytest.mark.parametrize("without", ["unknown machine"], indirect=True)
def test_where_addresses_cannot_be_scrambled_what_may_show_one_is_refused(without):
    for text in ("id(1) % 32", "str(int.mro)[-3:]", "f'{f}'[-3]", "hash(f) % 8", "'%s' % f"):
        verdict = without.check(f"def f(x):\n    return {text}", "1")
        assert verdict.status == Status.NONDETERMINISTIC, text
        assert 2 <= verdict.runs <= 16
    verdict = without.check("def f(x):\n    return len(repr(f))", "1")
    assert (verdict.status, verdict.runs) == (Status.NONDETERMINISTIC, 16)
    assert "addresses" in verdict.reason
    for text in ("x % 2", "[x] * 3", "'a' + 'b'", "f'a'"):
        assert without.check(f"def f(x):\n    return {text}", "1").runs == 2
    assert without.run("def f(x):\n    return f'{x}'", "1").output == "'1'"
