"""Walls broken on purpose, one at a time: the named test has to notice each.

What no test notices, and why it may stay: one of two layers that do the same. The timer of
processor time and RLIMIT_CPU; NPROC and the descriptors closed in a child, behind the filter;
`die_with_parent` behind the server's kill; the check for x32 numbers, which the search tree kills,
too; built-in names of each input's own, behind the grammar.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import code_verifier

SOURCE = Path(code_verifier.__file__).parent
MUTANTS = [  # file, text, what it becomes, the file of tests that notices
    (
        "execution.py",
        "canonical(parse_literal(text, len(text)), len(text)) != text",
        "False",
        "walls",
    ),
    ("execution.py", "verdict.ok and verdict.output == first.output", "verdict.ok", "corpus"),
    ("execution.py", "CHANCE_RUNS = 16", "CHANCE_RUNS = 8", "walls"),
    (
        "execution.py",
        "if same and first.status in _SETTLED",
        "if first.status in _SETTLED",
        "walls",
    ),
    ("jail/server.py", "or data[:16] != nonce", "", "walls"),
    ("jail/server.py", "all(status in _OF_CHILD for status, _ in results)", "True", "walls"),
    (
        "jail/server.py",
        "            confine.kill_session(pid)\n            protocol.send(",
        "            protocol.send(",
        "walls",
    ),
    ("jail/server.py", "len(data) > limit or ", "", "corpus"),
    (
        "jail/server.py",
        'nondeterminism.install_clocks(config["index"], self.wall_s)',
        "pass",
        "clocks",
    ),
    ("jail/server.py", 'nondeterminism.install_entropy(config["index"])', "pass", "layers"),
    ("jail/server.py", 'nondeterminism.shuffle_memory(config["index"])', "pass", "layers"),
    (
        "jail/confine.py",
        "fields.append(0b11)  # abstract sockets",
        "fields.append(0b01)  #",
        "walls",
    ),
    ("jail/confine.py", "(1 << rights) - 1", "1", "layers"),
    (
        "jail/seccomp.py",
        "_KILL, _ERRNO, _ALLOW = 0x80000000,",
        "_KILL, _ERRNO, _ALLOW = 0x7FFF0000,",
        "seccomp",
    ),
    ("jail/seccomp.py", "_PROT_EXEC = 4", "_PROT_EXEC = 8", "seccomp"),
    (
        "jail/examiner.py",
        "_BUDGET_S, _PER_BYTE_S = 0.25, 2e-5",
        "_BUDGET_S, _PER_BYTE_S = 900, 1",
        "walls",
    ),
    (
        "jail/examiner.py",
        "_BUDGET_S, _PER_BYTE_S = 0.25, 2e-5",
        "_BUDGET_S, _PER_BYTE_S = 0.05, 1e-9",
        "walls",
    ),
    ("jail/child.py", "sys.set_int_max_str_digits(digits)", "pass", "separable"),
    (
        "jail/policy.py",
        "free = _SPECIAL | _built_in_names(tree, guards)",
        "free = set()",
        "sandbox",
    ),
    ("jail/separable.py", "if not nodes.keys() <= _GRAMMAR", "if False", "separable"),
    ("jail/separable.py", "or not _REFUSED.isdisjoint(names) ", "", "separable"),
    ("jail/separable.py", "or _has_special_names(nodes)", "", "company"),
    ("jail/separable.py", "or any(map(_sees_identity, nodes[ast.Compare]))", "", "company"),
    ("jail/separable.py", "or (nodes[ast.Try] and _sees_memory(nodes))", "", "company"),
    ("jail/separable.py", "- set(dir(builtins))", "", "company"),
    ("jail/separable.py", "if not nodes[ast.ClassDef] else ()", "", "company"),
    ("canonical.py", "type(value)", "value.__class__", "literals"),
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_broken_wall_is_noticed(number: int, tmp_path: Path) -> None:
    name, text, other, tests = MUTANTS[number]
    package = tmp_path / "code_verifier"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    source = (package / name).read_text()
    assert text in source, f"{name} has changed: {text!r} is gone"
    (package / name).write_text(source.replace(text, other))
    file = Path(__file__).with_name(f"test_code_verifier_{tests}.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(file)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=900,
        cwd=file.parents[2],
    )
    assert done.returncode == 1, f"{name}: {text!r} became {other!r}\n{done.stdout[-2000:]}"
