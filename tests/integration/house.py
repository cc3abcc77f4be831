"""Count the imports between rooms, and draw the house: `make house`.

Writes the table between the markers of docs/architecture.md, and docs/house.svg.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from house_picture import FLOORS, Graph, picture
from test_rooms import ROOT, arrows, source

PACKAGES = tuple(package for floor in FLOORS for package in floor)
BEGIN, END = "<!-- made by `make house` -->\n", "<!-- made until here -->\n"
Counts = Mapping[tuple[str, str], int]


def rooms(package: str) -> list[str]:
    """The folders of modules directly inside a package."""
    return sorted(path.parent.name for path in source(package).glob("*/__init__.py"))


def graph(package: str, found: Counts) -> Graph:
    """Each room with the rooms that it imports from; files directly in the package left out."""
    inside: Graph = {name: set() for name in rooms(package)}
    for start, end in found:
        if start in inside and end in inside:
            inside[start].add(end)
    return inside


def table(counts: Mapping[str, Counts]) -> str:
    """Per package the numbers of its arrows and of ways from room to room; per room its arrows."""
    lines = ["| package | room | imports from | arrows |", "|---|---|---|---|"]
    for package, found in counts.items():
        lines.append(f"| **{package}** | all | | {sum(found.values())} in {len(found)} ways |")
        for room in rooms(package):
            ends = {end: n for (start, end), n in found.items() if start == room}
            named = ", ".join(f"{end} {n}" for end, n in sorted(ends.items())) or "none"
            lines.append(f"| | `{room}` | {named} | {sum(ends.values())} |")
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    """Write both into `folder`, where architecture.md has the markers."""
    page = folder / "architecture.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page} lacks the lines {BEGIN.strip()} and {END.strip()}")
    counts = {package: arrows(package) for package in PACKAGES}
    page.write_text(f"{before}{BEGIN}\n{table(counts)}\n{END}{after}")
    graphs = {package: graph(package, found) for package, found in counts.items()}
    files = {package: len(list(source(package).glob("[!_]*.py"))) for package in PACKAGES}
    (folder / "house.svg").write_text(picture(graphs, files))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
