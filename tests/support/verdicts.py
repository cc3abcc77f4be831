"""The verdicts of one interpreter: python tests/support/verdicts.py FILE [FOLDER]

Writes a line of JSON for each program and input of the sandbox's corpora, and of Absolute Zero's
files `*_seed_io.jsonl` in the folder: where it is from, its status and its output. Two interpreters
of one version write the same lines.
"""

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from code_verifier import Limits, Proposal, Sandbox

CORPUS = Path(__file__).parents[1] / "code_verifier" / "corpus"
GREEDY = ("cpu", "memory", "processes", "recursion")
"""Families of programs that run out of one thing or another."""


def of_the_corpus() -> Iterator[tuple[str, str, str]]:
    """Name, program and input of every entry that does not run out of anything."""
    for path in sorted(CORPUS.glob("benign_*.toml")) + sorted(CORPUS.glob("hostile_*.toml")):
        if not path.stem.endswith(GREEDY):
            for entry in tomllib.loads(path.read_text())["program"]:
                if "program" in entry:
                    name = f"{path.stem}: {entry.get('name', entry['program'])}"
                    yield name, entry["program"], entry.get("input", "1")


def of_seeds(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Name, program and input of every pair of the files of a folder."""
    for path in sorted(folder.glob("*_seed_io.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(line)
            program = Proposal.from_row(row).program
            for place, given in enumerate(row.get("inputs") or [row["input"]]):
                yield f"{path.stem} {number}.{place}", program, given


def main() -> None:
    out, *folders = map(Path, sys.argv[1:])
    rows = [*of_the_corpus(), *(row for folder in folders for row in of_seeds(folder))]
    with Sandbox(2, Limits(wall_s=30.0, cpu_s=10.0)) as sandbox, out.open("w") as file:
        verdicts = sandbox.check_many((program, given) for _, program, given in rows)
        for (name, *_), verdict in zip(rows, verdicts, strict=True):
            print(json.dumps([name, verdict.status, verdict.output]), file=file)


if __name__ == "__main__":
    main()
