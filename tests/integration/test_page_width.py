"""All pages wrap at one width, so that a change of a page shows what it changed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 88
PAGES = [
    *(page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"),
    *sorted(ROOT.glob("[!.]*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def too_wide(text: str) -> list[str]:
    """Lines of prose wider than a page that a space within the page could have broken.

    Tables, headings and blocks of code may be wider; spaces in code or a marker break nothing.
    """
    prose = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for line in prose.splitlines():
        whole = re.sub(r"`[^`]+`", lambda code: "x" * len(code[0]), line)
        start = re.match(r"\s*([*-] |\d+\. )?", whole)
        breakable = " " in whole[start.end() if start else 0 : WIDTH + 1]
        if len(line) > WIDTH and breakable and not whole.lstrip().startswith(("|", "#")):
            found.append(line)
    return found


def test_every_page_is_wrapped_at_one_width() -> None:
    assert not {page.name: lines for page in PAGES if (lines := too_wide(page.read_text()))}


def test_what_is_too_wide_is_found() -> None:
    words = "many words " * 9
    assert too_wide(f"short\n{words}\n") == [words]
    assert too_wide(f"* {words}") == [f"* {words}"]
    assert not too_wide(f"```sh\n{words}\n```\n| {words} |\n")
    assert not too_wide("* https://example.org/" + 90 * "x")
    assert not too_wide(f"`{words}`")
