"""The threat model names a test for each claim, and the tests exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_named_test_exists() -> None:
    page = (ROOT / "docs" / "threat-model.md").read_text()
    folder = ROOT / "tests" / "code_verifier"
    defined = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    named = re.findall(r"`(test_\w+)[^`]*`", page)
    functions = {name for name in named if not name.startswith("test_code_verifier_")}
    assert len(functions) >= 15
    assert functions <= defined, functions - defined
    files = set(re.findall(r"`(test_code_verifier_\w+\.py)`", page))
    assert files <= {path.name for path in folder.glob("*.py")}, files
