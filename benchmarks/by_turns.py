"""Speeds of docs/results.md with today's code, and with that of the commit that each row names.

    python benchmarks/by_turns.py [NAME ...] [--turns 2]

NAME: benchmarks of the table "Speed", such as league_ratings, or selfplay for the runs in it; by
default all that need no file of the user's. A row's command runs with the code of its commit and
with that of this checkout, by turns, so that a busy machine is as busy for both; both use today's
libraries. A ratio is today's median divided by that of the commit; figures that moved by more than
a tenth are marked. What the old code cannot do stands in its row.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarking import Row, parser, show

ROOT = Path(__file__).parents[1]
MOVED = 1.1
PACKAGES = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
COMMAND = re.compile(
    r"`(?:python benchmarks/)?(\w+)(?:\.py)?( [^`]*)?`, `([0-9a-f]{7,})` \|$", re.M
)
FILE = re.compile(r" --[\w-]+ [A-Z]+\b")
"""An option whose value is the user's own."""
COLUMNS = {
    "league_ratings": ("times", 2),
    "lora_children": ("CPU s", 1),
    "sandbox_throughput": ("CPU ms each", 1),
}
"""The column of a benchmark's table, and how many cells name its row."""
WORKERS = re.compile(r"^(.+?): one process .* workers ([\d.]+)", re.M)
"""What the benchmark of workers prints: a population, and seconds of the slowest worker."""
NAMES = (*COLUMNS, "workers", "selfplay")
SHORTER = {"lora_children": ("--only", "svd_structured"), "workers": ("--rounds", "1")}
"""Options that leave out what the table does not tell, and repeats that the turns make."""


@dataclass(frozen=True)
class Speed:
    """A row of the table: a benchmark or `selfplay`, its options, and the commit of its figure."""

    name: str
    options: tuple[str, ...]
    commit: str


class Failed(Exception):
    """A tree has no such benchmark, or it ended with an error."""


def speeds(results: str, names: Sequence[str]) -> list[Speed]:
    """Return the rows of these names."""
    table = results.partition("\n## Speed\n")[2].partition("\n## ")[0]
    return [
        Speed(name, tuple(FILE.sub("", options).split()), commit)
        for name, options, commit in COMMAND.findall(table)
        if name in names
    ]


def unpack(commit: str, tree: Path) -> None:
    """Write the files of a commit into a folder, unless it is there."""
    if tree.exists():
        return
    command = ["git", "-C", str(ROOT), "archive", commit]
    archive = subprocess.run(command, capture_output=True)
    if archive.returncode:
        raise Failed("this commit is not in the history here")
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)


def measure(speed: Speed, tree: Path) -> dict[str, float]:
    """Return the figures of one run by name, with the code of a tree."""
    with tempfile.TemporaryDirectory() as out:
        if speed.name == "selfplay":
            command = ["-m", "selfplay", *speed.options, "--out", f"{out}/run"]
        else:
            homes = (tree / "benchmarks", tree / "tests" / "benchmarks")
            script = next((f for home in homes if (f := home / f"{speed.name}.py").exists()), None)
            if script is None:
                raise Failed("it has no such benchmark")
            command = [str(script), *speed.options, *SHORTER.get(speed.name, ())]
        paths = [str(tree / name / "src") for name in PACKAGES]
        begin = processor_seconds()
        process = subprocess.run(
            [sys.executable, *command],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
        )
        used = processor_seconds() - begin
    if process.returncode:
        raise Failed((process.stderr.strip() or f"exit code {process.returncode}").splitlines()[-1])
    if speed.name == "selfplay":
        return {"processor seconds": used}
    if speed.name == "workers":
        return {f"{name}, s a step": float(s) for name, s in WORKERS.findall(process.stdout)}
    return figures(process.stdout, *COLUMNS[speed.name])


def processor_seconds() -> float:
    """Return what the children that have ended used, with their own children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(text: str, title: str, named_by: int) -> dict[str, float]:
    """Return a column of a Markdown table, by the first cells of its rows."""
    values: dict[str, float] = {}
    column = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if title in cells:
            column = cells.index(title)
        elif line.startswith("| ") and column:
            name = ", ".join([*cells[:named_by], title])
            values[name] = float(cells[column].replace(",", ""))
    return values


def compare(speed: Speed, then: Path, turns: int) -> list[Row]:
    """Return a row for each figure, or one that says why there is none."""
    head: Row = {"benchmark": " ".join((speed.name, *speed.options)), "commit": speed.commit}
    none = dict.fromkeys(("figure", "then", "today", "ratio"))
    runs: dict[Path, list[dict[str, float]]] = {then: [], ROOT: []}
    for turn in range(turns):
        for tree in (then, ROOT) if turn % 2 == 0 else (ROOT, then):
            try:
                unpack(speed.commit, then)
                runs[tree].append(measure(speed, tree))
            except Failed as error:
                return [head | none | {"": f"{'today' if tree == ROOT else 'then'}: {error}"}]
    rows = []
    for name in runs[then][0]:
        if name in runs[ROOT][0]:
            before, today = (median(run[name] for run in runs[tree]) for tree in (then, ROOT))
            row = {"figure": name, "then": before, "today": today, "ratio": today / before}
            rows.append(head | row | {"": "" if 1 / MOVED < row["ratio"] < MOVED else "MOVED"})
    return rows or [head | none | {"": "no figure that both print"}]


def main() -> None:
    options = parser(__doc__, turns=2)
    options.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    args = options.parse_args()
    if unknown := set(args.names) - set(NAMES):
        options.error(f"NAME is {min(unknown)!r}; expected {', '.join(NAMES)}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for speed in speeds((ROOT / "docs" / "results.md").read_text(), args.names):
            new = compare(speed, Path(folder) / speed.commit, args.turns)
            show(new, head=not rows)
            rows += new
    moved = sum(row[""] == "MOVED" for row in rows)
    compared = sum(row["ratio"] is not None for row in rows)
    print(f"\n{moved} of {compared} figures moved: what stays so belongs in docs/results.md")


if __name__ == "__main__":
    main()
