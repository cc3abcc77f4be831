"""Walls broken on purpose, one at a time: the named test has to notice each.

What no test notices, and why it may stay: one of two layers that do the same. The timer of
processor time and RLIMIT_CPU; NPROC and the descriptors closed in a child, behind the filter;
the end with the parent behind the server's kill; the check for x32 numbers, which the search tree
kills, too; memory in disorder, behind the kernel's and sixteen executions; a bound for what a
server reads, behind the child's limits of time.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import code_verifier

SOURCE = Path(code_verifier.__file__).parent
CORPUS = Path(__file__).parent / "corpus"
MUTANTS = tomllib.loads((CORPUS / "mutants.toml").read_text())["mutant"]


def noticing(mutant):
    return Path(__file__).with_name(f"test_{mutant['tests']}.py")


def test_the_tests_that_shall_notice_exist():
    assert [mutant for mutant in MUTANTS if not noticing(mutant).is_file()] == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m['file']}: {m['text'][:30]}")
def test_a_broken_wall_is_noticed(mutant, tmp_path):
    name, text, other = mutant["file"], mutant["text"], mutant["becomes"]
    package = tmp_path / "code_verifier"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    source = (package / name).read_text()
    assert text in source, f"{name} has changed: {text!r} is gone"
    (package / name).write_text(source.replace(text, other))
    file = noticing(mutant)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(file)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=900,
        cwd=file.parents[2],
    )
    assert done.returncode == 1, f"{name}: {text!r} became {other!r}\n{done.stdout[-2000:]}"
