"""Numbers as a reader wants them, and what every number of `Metrics` means."""

MEANING = {
    "ast_depth": ("Depth of the syntax tree", "How many parts of a program sit inside each other."),
    "ast_nodes": ("Size of the syntax tree", "How many parts a program has: a measure of length."),
    "cyclomatic": (
        "Cyclomatic complexity",
        "One for each function or class, plus one for each branch, loop and condition in it.",
    ),
    "loc": ("Lines of code", "Lines without blank ones, comments and docstrings."),
    "variables": ("Variables", "Different names that a program assigns or takes as parameters."),
    "halstead_volume": (
        "Halstead volume",
        "Bits to write down the operators of a program and what they join.",
    ),
    "halstead_effort": (
        "Halstead effort",
        "Halstead volume times difficulty: a guess at how hard a program is to understand.",
    ),
    "max_nesting": (
        "Nesting",
        "How many ifs, loops, withs, tries and matches are inside each other.",
    ),
    "functions": ("Functions", "How many functions and methods a program defines."),
    "imports": ("Imports", "How many different modules a program imports."),
}
"""Title and one plain sentence for every number of Metrics."""


def number(value: float) -> str:
    """A number with about three digits that matter, thousands apart."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def plural(count: int, noun: str) -> str:
    """`1 program`, `2 programs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
