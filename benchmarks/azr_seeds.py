"""What share of AZR's published seed tasks is in error, and why.

    python benchmarks/azr_seeds.py FOLDER [--workers 2] [--show REASON]

FOLDER holds files of the folder `data` of LeapLabTHU/Absolute-Zero-Reasoner (commit a82124e):
`*_seed_io.jsonl`. Every pair of a row goes through the sandbox's check, and published outputs are
compared by value with those found. A pair has one reason, the first that holds; a code_f row has
every reason that holds for it or for one of its pairs. --show prints the rows with a reason.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarking import Row, parser, show

from code_verifier import (
    Comparison,
    Limits,
    LiteralError,
    Proposal,
    Sandbox,
    Status,
    Verdict,
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


@dataclass
class Found:
    """Reasons of each row of a file, and how many pairs it has."""

    name: str
    rows: list[set[str]]
    pairs: int = 0
    wrong: int = 0
    lines: list[str] = field(default_factory=list)


def value(text: str, arguments: bool = False) -> str | None:
    """Return the text in canonical form; None when it holds no literals."""
    try:
        if not arguments:
            return canonical(parse_literal(text))
        args, kwargs = parse_arguments(text)
        return canonical([list(args), kwargs])
    except LiteralError:
        return None


def reason(verdict: Verdict, text: str, published: str) -> str:
    """Return why the pair is in error or refused; empty when it is right."""
    if not published.strip():
        return "empty output"
    if len(published) == AZR_TRUNCATED and published[200:203] == "...":
        return "truncated output"
    unreadable = value(published) is None
    if verdict.status == "not_literal":
        if value(text, arguments=True) is None:
            return "input not a literal"
        return "output not a literal" if unreadable else "result not a literal"
    if verdict.status in ("banned", "nondeterministic", "exception"):
        return str(verdict.status)
    if verdict.output is None:
        return "fails otherwise"
    if unreadable:
        return "output not a literal"
    same = Comparison().same(parse_literal(verdict.output), parse_literal(published))
    return "" if same else "other output"


def of_the_row(row: dict[str, Any], sandbox: Sandbox) -> set[str]:
    """Return the reasons that concern a code_f row as a whole."""
    faults, half = set(), len(row["inputs"]) // 2
    if len({value(text) or text for text in row["outputs"]}) == 1:
        faults.add("outputs all equal")
    inputs = [value(text, arguments=True) or text for text in row["inputs"]]
    if set(inputs[:half]) & set(inputs[half:]):
        faults.add("input repeated")
    proposal = Proposal("code_f", row["snippet"], inputs=("0", "1"), message=row["message"])
    if sandbox.validate(proposal).status == Status.LEAKING_MESSAGE:  # before anything runs
        faults.add("message leaks")
    return faults


def examine(path: Path, sandbox: Sandbox) -> Found:
    """Check one seed file."""
    lines = path.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    reasons = [of_the_row(row, sandbox) if "inputs" in row else set() for row in rows]
    result = Found(path.stem.removesuffix("_seed_io"), reasons, lines=lines)
    pairs = []
    for row, why in zip(rows, reasons, strict=True):
        program = Proposal.from_row(row).program
        inputs = row["inputs"] if "inputs" in row else [row["input"]]
        published = row["outputs"] if "outputs" in row else [row["output"]]
        pairs += [(program, i, o, why) for i, o in zip(inputs, published, strict=True)]
    verdicts = sandbox.check_many((program, text) for program, text, *_ in pairs)
    for (_, text, published, why), verdict in zip(pairs, verdicts, strict=True):
        result.pairs += 1
        if wrong := reason(verdict, text, published):
            result.wrong += 1
            why.add(wrong)
    return result


def table(results: list[Found]) -> list[Row]:
    """Return a column for each file."""

    def line(title: str, counts: list[object]) -> Row:
        return {"": title, **dict(zip([each.name for each in results], counts, strict=True))}

    def having(name: str) -> Row:
        return line(name, [sum(name in row for row in each.rows) or "" for each in results])

    bad = [sum(bool(row & REASONS.keys()) for row in each.rows) for each in results]
    some = [sum(map(bool, each.rows)) for each in results]
    return [
        line("rows", [len(each.rows) for each in results]),
        line("published in error", [*bad]),
        *map(having, REASONS),
        line("only refused by us", [a - b for a, b in zip(some, bad, strict=True)]),
        *map(having, REFUSED),
        line("pairs not right, of all pairs", [f"{each.wrong}/{each.pairs}" for each in results]),
    ]


def main() -> None:
    options = parser(__doc__, workers=2)
    options.add_argument("folder", type=Path)
    options.add_argument("--show", choices=[*REASONS, *REFUSED])
    args = options.parse_args()
    with Sandbox(args.workers, Limits(wall_s=10.0)) as sandbox:
        results = [examine(path, sandbox) for path in sorted(args.folder.glob("*_seed_io.jsonl"))]
    for each in results:
        for text, reasons in zip(each.lines, each.rows, strict=True):
            if args.show in reasons:
                print(f"{each.name}: {text}")
    show(table(results))


if __name__ == "__main__":
    main()
