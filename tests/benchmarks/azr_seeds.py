"""What share of AZR's published seed tasks is in error, and why.

    python tests/benchmarks/azr_seeds.py FOLDER [--workers 2] [--show REASON]

FOLDER holds files of the folder `data` of LeapLabTHU/Absolute-Zero-Reasoner (commit a82124e):
`*_seed_io.jsonl`. Each file goes through `code-verifier check` as it is; of a code_f file every
pair goes through on its own as well. Published outputs are compared by value with those found.
A pair has one reason, the first that holds; a code_f row has every reason that holds for
it or for one of its pairs. --show prints the rows with a reason.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarking import Row, parser, show

from code_verifier import (
    Comparison,
    LiteralError,
    Proposal,
    Sandbox,
    Status,
    canonical,
    parse_arguments,
    parse_literal,
)

AZR_TRUNCATED = 403  # 400 characters around three dots
REASONS = {
    "empty output": "nothing was published as output",
    "truncated output": "the published output was cut to 403 characters",
    "output not a literal": "the published output is the printed form of something else",
    "other output": "the program gives another value than the published one",
    "nondeterministic": "the output changes with hash seed, clock, entropy or address",
    "exception": "the program raises",
    "fails otherwise": "syntax error, timeout, memory, violation or an output without limit",
    "outputs all equal": "code_f: any constant function solves the task",
    "input repeated": "code_f: a hidden input is also a visible one",
    "message leaks": "code_f: the hint defines f or quotes the program",
}
REFUSED = {
    "banned": "imports a module or uses a name that the sandbox does not allow",
    "input not a literal": "the input is an expression; the sandbox never evaluates one",
    "result not a literal": "the result is of another type than the built-in ones",
}


@dataclass(frozen=True)
class Found:
    """Reasons of each row of a file, and how many pairs it has."""

    name: str
    rows: list[set[str]]
    pairs: int
    wrong_pairs: int


def checked(rows: Iterable[Row], workers: int) -> list[Row]:
    """The verdicts of `code-verifier check` on the rows."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "rows.jsonl", Path(folder) / "verdicts.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [sys.executable, "-m", "code_verifier", "check", str(source), "--out", str(out)]
        done = subprocess.run(
            [*command, "--workers", str(workers), "--wall-s", "10"], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"check ended with {done.returncode}: {done.stderr}")
        return [json.loads(line) for line in out.read_text().splitlines()]


def literal(text: str) -> bool:
    try:
        parse_literal(text)
    except LiteralError:
        return False
    return True


def reason(verdict: Row, given: str, published: str) -> str:
    """Why the pair is in error or refused; empty when it is right."""
    if not published.strip():
        return "empty output"
    if len(published) == AZR_TRUNCATED and published[200:203] == "...":
        return "truncated output"
    status = verdict["status"]
    if status == "banned":
        return "banned"
    if status == "not_literal":
        try:
            parse_arguments(given)
        except LiteralError:
            return "input not a literal"
        return "result not a literal" if literal(published) else "output not a literal"
    if status in ("nondeterministic", "exception"):
        return str(status)
    if status != "ok":
        return "fails otherwise"
    if not literal(published):
        return "output not a literal"
    same = Comparison().same(parse_literal(verdict["output"]), parse_literal(published))
    return "" if same else "other output"


def value(text: str, arguments: bool) -> str:
    """The text in canonical form, or as it is when it holds no literals."""
    try:
        if arguments:
            args, kwargs = parse_arguments(text)
            return canonical([list(args), kwargs])
        return canonical(parse_literal(text))
    except LiteralError:
        return text


def of_the_row(row: Row, sandbox: Sandbox) -> set[str]:
    """Reasons that concern a code_f row as a whole."""
    found = set()
    if len({value(text, False) for text in row["outputs"]}) == 1:
        found.add("outputs all equal")
    half = len(row["inputs"]) // 2
    inputs = [value(text, True) for text in row["inputs"]]
    if set(inputs[:half]) & set(inputs[half:]):
        found.add("input repeated")
    proposal = Proposal("code_f", row["snippet"], inputs=("0", "1"), message=row["message"])
    if sandbox.validate(proposal).status == Status.LEAKING_MESSAGE:  # before anything runs
        found.add("message leaks")
    return found


def examine(path: Path, workers: int) -> Found:
    """One seed file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    verdicts = checked(rows, workers)
    if "inputs" not in rows[0]:
        found = [
            {why} if (why := reason(verdict, row["input"], row["output"])) else set()
            for row, verdict in zip(rows, verdicts, strict=True)
        ]
        return Found(path.stem, found, len(rows), sum(map(bool, found)))
    pairs = [
        {"snippet": row["snippet"], "imports": row["imports"], "input": given, "at": number}
        for number, row in enumerate(rows)
        for given in row["inputs"]
    ]
    published = [output for row in rows for output in row["outputs"]]
    with Sandbox(workers=1) as sandbox:
        found = [of_the_row(row, sandbox) for row in rows]
    wrong = 0
    for pair, verdict, output in zip(pairs, checked(pairs, workers), published, strict=True):
        why = reason(verdict, pair["input"], output)
        if why:
            wrong += 1
            found[pair["at"]].add(why)
    return Found(path.stem, found, len(pairs), wrong)


def table(results: list[Found]) -> list[Row]:
    """A column for each file."""
    rows: list[Row] = []

    def line(title: str, count: Callable[[Found], object]) -> None:
        cells = {each.name.removesuffix("_seed_io"): count(each) for each in results}
        rows.append({"": title, **cells})

    def having(name: str) -> Callable[[Found], object]:
        return lambda each: sum(name in row for row in each.rows) or ""

    line("rows", lambda each: len(each.rows))
    line("published in error", lambda each: sum(bool(row & REASONS.keys()) for row in each.rows))
    for name in REASONS:
        line(name, having(name))
    line(
        "only refused by us",
        lambda each: sum(bool(row) and not row & REASONS.keys() for row in each.rows),
    )
    for name in REFUSED:
        line(name, having(name))
    line("pairs not right, of all pairs", lambda each: f"{each.wrong_pairs}/{each.pairs}")
    return rows


def main() -> None:
    """Examine every file, print."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--show", choices=[*REASONS, *REFUSED])
    given = options.parse_args()
    results = []
    for path in sorted(given.folder.glob("*_seed_io.jsonl")):
        found = examine(path, given.workers)
        results.append(found)
        for line, reasons in zip(path.read_text().splitlines(), found.rows, strict=True):
            if given.show in reasons:
                print(f"{path.name}: {line}")
    show(table(results))


if __name__ == "__main__":
    main()
