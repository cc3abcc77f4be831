"""The sections of the page, each a heading, a plain sentence and its pictures."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from code_verifier.metrics.diversity import Coverage
from code_verifier.metrics.measurement import NUMBERS, Metrics
from code_verifier.metrics.summary import Window, quantile
from code_verifier.page.markup import escape, number, plural
from code_verifier.page.plots import Line, bars, curves

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
_FRACTIONAL = ("halstead_volume", "halstead_effort")
_EXAMPLE_LINES = 40
_EXAMPLE_CHARS = 3000


def tiles(metrics: Sequence[Metrics], found: Coverage, unparsed: int) -> str:
    """The headline numbers."""
    middle = {name: sorted(float(getattr(m, name)) for m in metrics) for name in NUMBERS}
    cells = [
        (f"{found.programs:,}", "programs measured"),
        (f"{unparsed:,}", "rows left out: no Python, or too deep"),
        (
            f"{found.distinct:,}",
            f"different structures ({100 * found.share:.0f} % of the programs)",
        ),
        (number(found.effective), f"structures in effect (entropy {found.entropy_bits:.2f} bits)"),
        (f"{100 * found.new_chance:.0f} %", "chance that one more program has a new structure"),
        (number(quantile(middle["cyclomatic"], 0.5)), "cyclomatic complexity, median"),
        (number(quantile(middle["ast_depth"], 0.5)), "depth of the syntax tree, median"),
        (number(quantile(middle["loc"], 0.5)), "lines of code, median"),
    ]
    body = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
        for value, label in cells
    )
    return f'<div class="tiles">{body}</div>'


def coverage_section(found: Coverage, counts: Sequence[int]) -> str:
    """Growth of the number of structures, and how evenly they are used. counts: largest first."""
    growth = [(float(n), float(distinct)) for n, distinct in found.growth]
    every = [(growth[0][0], growth[0][0]), (growth[-1][0], growth[-1][0])]
    rising = curves(
        [Line(growth, "main", "structures found"), Line(every, "dotted", "if all were new")],
        "programs so far",
        "",
    )
    held = [0.0, *(100.0 * part / found.programs for part in accumulate(counts))]
    even = [(0.0, 0.0), (float(len(counts)), 100.0)]
    keep = max(1, len(held) // 200)
    points = [(float(i), y) for i, y in enumerate(held) if i % keep == 0 or i == len(counts)]
    common = curves(
        [Line(points, "main", "programs, %"), Line(even, "dotted", "if used evenly")],
        "structures, the most common first",
        "",
    )
    text = (
        "Two programs have the same structure when they differ only in their names, constants, "
        "comments and types."
    )
    grown = (
        "Structures found after so many programs. A curve that bends flat means that new programs "
        "repeat old ones; near the dotted line almost every program is new."
    )
    spread = (
        "Share of the programs that the most common structures hold. The steeper the start, the "
        f"fewer structures dominate. Entropy {found.entropy_bits:.2f} bits: as varied as "
        f"{number(found.effective)} structures that are equally common."
    )
    panels = _panel("Growth", grown, rising) + _panel("Evenness", spread, common)
    return f'<h2>Coverage</h2><p>{escape(text)}</p><div class="panels">{panels}</div>'


def distributions(metrics: Sequence[Metrics]) -> str:
    """One histogram for every number."""
    panels = []
    for name in NUMBERS:
        values = sorted(float(getattr(item, name)) for item in metrics)
        title, sentence = MEANING[name]
        marks = [("5 %", 0.05), ("median", 0.5), ("95 %", 0.95)]
        places = [(label, quantile(values, share)) for label, share in marks]
        if places[0][1] == places[2][1]:
            places = [places[1]]
        low, high = number(quantile(values, 0.05)), number(quantile(values, 0.95))
        span = (
            f"{sentence} Median {number(quantile(values, 0.5))}, nine tenths from {low} to {high}, "
            f"all from {number(values[0])} to {number(values[-1])}."
        )
        marks_drawn = [(label if label == "median" else "", value) for label, value in places]
        picture = bars(values, name not in _FRACTIONAL, marks_drawn, title.lower())
        panels.append(_panel(title, span, picture))
    text = (
        "Each bar counts the programs with that value. The broken lines mark the values that 5 %, "
        "half and 95 % of the programs do not exceed; a grey last bar holds the rare larger ones."
    )
    return f'<h2>Distributions</h2><p>{escape(text)}</p><div class="panels">{"".join(panels)}</div>'


def trends(found: Sequence[Window]) -> str:
    """The numbers over the steps of a run."""
    middles = [(window.first_step + window.last_step) / 2 for window in found]
    distinct = [(x, float(window.distinct)) for x, window in zip(middles, found, strict=True)]
    programs = [(x, float(window.programs)) for x, window in zip(middles, found, strict=True)]
    picture = curves(
        [Line(distinct, "main", "structures"), Line(programs, "quiet", "programs")], "step", ""
    )
    hint = (
        "Different structures among the programs of each stretch of steps. When the blue line "
        "falls away from the grey one, the programs repeat each other: a collapse."
    )
    panels = [_panel("Variety", hint, picture)]
    for name in NUMBERS:
        low, middle, high = (
            [(x, window.bands[name][side]) for x, window in zip(middles, found, strict=True)]
            for side in range(3)
        )
        picture = curves([Line(middle)], "step", "", (low, high))
        first, last = middle[0][1], middle[-1][1]
        hint = f"{MEANING[name][1]} Median {number(first)} at first, {number(last)} at last."
        panels.append(_panel(MEANING[name][0], hint, picture))
    text = (
        "The line is the median of the programs of a step (or of a few neighbouring steps), the "
        "band holds 90 % of them. Curves that fall show programs that become simpler over time."
    )
    return (
        f"<h2>Trends over the steps</h2><p>{escape(text)}</p>"
        f'<div class="panels">{"".join(panels)}</div>'
    )


def repeated(found: Coverage, examples: Mapping[str, str]) -> str:
    """The most common structures, each with an example of it."""
    if not found.repeated:
        return "<h2>Most repeated structures</h2><p>No structure occurs twice.</p>"
    parts = []
    for rank, item in enumerate(found.repeated):
        example = examples.get(item.key, item.example)
        lines = example[:_EXAMPLE_CHARS].split("\n")
        cut = len(lines) > _EXAMPLE_LINES or len(example) > _EXAMPLE_CHARS
        shown = "\n".join([*lines[:_EXAMPLE_LINES], *(["..."] if cut else [])])
        share = 100 * item.count / found.programs
        parts.append(
            f"<details{' open' if rank < 3 else ''}><summary><b>{plural(item.count, 'program')}</b>"
            f" ({share:.1f} %), structure {escape(item.key)}</summary>"
            f"<pre>{escape(shown)}</pre></details>"
        )
    text = "The structures that occur most often, each with the first program that has it."
    return f"<h2>Most repeated structures</h2><p>{text}</p>{''.join(parts)}"


def table(numbers: dict[str, dict[str, float]]) -> str:
    """The summary as numbers."""
    names = next(iter(numbers.values())).keys()
    head = "".join(f"<th>{escape(_column(name))}</th>" for name in names)
    body = "".join(
        f"<tr><td>{escape(MEANING[name][0])}</td>"
        + "".join(f"<td>{number(value)}</td>" for value in row.values())
        + "</tr>"
        for name, row in numbers.items()
    )
    text = "Each column p says which value that percentage of the programs does not exceed."
    return (
        f"<h2>All numbers</h2><p>{text}</p>"
        f'<div class="scroll"><table><tr><th></th>{head}</tr>{body}</table></div>'
    )


def _column(name: str) -> str:
    return {"p0": "least", "p50": "median", "p100": "most"}.get(name, name)


def _panel(title: str, hint: str, picture: str) -> str:
    return (
        f'<div class="panel"><h3>{escape(title)}</h3><p class="hint">{escape(hint)}</p>'
        f"{picture}</div>"
    )
