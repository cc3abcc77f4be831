"""Three packages that may not import each other frame their pages alike, to the letter."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "league" / "src" / "league"
OTHERS = {
    "code_verifier": ROOT / "code_verifier" / "src" / "code_verifier" / "page",
    "lora_evo": ROOT / "lora_evo" / "src" / "lora_evo" / "pages",
}
SAME = ("written", "environment", "specification", "save_charts", "_shown", "_cleaned", "_library")
SAME += ("_packaged", "_digest", "visible", "_UNSEEN")


def parts(*files: Path) -> dict[str, str]:
    """What some modules define at their top, by name, without its docstring."""
    found = {}
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                node.body = node.body[1:] if ast.get_docstring(node) else node.body
                found[node.name] = ast.unparse(node)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = ast.unparse(node)
    return found


@pytest.mark.parametrize("package", OTHERS)
def test_what_makes_a_page_safe_is_the_same_everywhere(package: str) -> None:
    first = parts(FIRST / "drawing" / "frame.py", FIRST / "drawing" / "words.py")
    other = parts(OTHERS[package] / "frame.py")
    mine = {name: other[name].replace(package, "league") for name in SAME}
    assert mine == {name: first[name] for name in SAME}


@pytest.mark.parametrize("package", OTHERS)
def test_templates_of_the_frame_are_the_same_everywhere(package: str) -> None:
    folder = OTHERS[package].parent / "templates"
    for name in ("frame.html", "parts.html", "draw.js"):
        assert (folder / name).read_bytes() == (FIRST / "templates" / name).read_bytes()
    style = (FIRST / "templates" / "style.css").read_text(encoding="utf-8")
    assert (folder / "style.css").read_text(encoding="utf-8").startswith(style)
