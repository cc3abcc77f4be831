"""The top of the page: what was run, what moved, who leads, and how to read the rest."""

from collections.abc import Sequence

from selfplay.report.markup import element, escape, figure
from selfplay.report.reading.drift import drift_sentence
from selfplay.report.reading.run_data import Run
from selfplay.report.summary import board, costs, headline, moved, quarter_text, reading

ARROWS = {"rose": "▲ rose", "fell": "▼ fell"}

GUIDE = (
    (
        "One step",
        "Teachers and students are paired by their ratings. Each teacher writes tasks about small "
        "programs; a sandbox drops those that do not run or do not repeat; the paired student "
        "tries every remaining task several times; then all members learn from their rewards.",
    ),
    (
        "Evolution",
        "Every few steps the weakest members are replaced by children made from the weights of "
        "better ones.",
    ),
    (
        "ρ (rho)",
        "The share of a student's attempts at a task that were right. A teacher earns 1 − ρ, and "
        "nothing for a task that nobody solves, so it looks for the edge of what students can do.",
    ),
    (
        "The three kinds",
        "code_o: predict a program's output. code_i: find an input for an output. code_f: write "
        "the program behind some examples.",
    ),
    (
        "The curves",
        "The light line is the value of each step, the strong line a running mean; "
        "dotted uprights are evolution steps. Rest the pointer on a picture to read numbers.",
    ),
)


def run_summaries(runs: Sequence[Run]) -> str:
    """Return the summary of every run: sentences, the table of what moved, and the board."""
    return "".join(_run_summary(run, len(runs) > 1) for run in runs)


def guide() -> str:
    """Return the words of this page, explained."""
    terms = "".join(element("dt", escape(t)) + element("dd", escape(d)) for t, d in GUIDE)
    summary = element("summary", "How to read this page")
    return element("details", summary + element("dl", terms), class_="guide")


def _run_summary(run: Run, named: bool) -> str:
    parts = [element("h3", escape(run.name))] if named else []
    words = " ".join(filter(None, (headline(run), costs(run), drift_sentence(run), reading(run))))
    parts.append(element("p", escape(words), class_="lead"))
    parts.append(element("div", _moved_table(run) + _board_table(run), class_="tables"))
    return "".join(parts)


def _moved_table(run: Run) -> str:
    names = ("", "first quarter", "last quarter", "")
    rows = [element("tr", "".join(element("th", name) for name in names))]
    for measure, change in moved(run):
        first = quarter_text(change.first, measure.share)
        last = quarter_text(change.last, measure.share)
        verdict = ARROWS.get(change.verdict, change.verdict)
        rows.append(
            element(
                "tr",
                element("td", escape(measure.title))
                + element("td", first, class_="number")
                + element("td", last, class_="number")
                + element("td", verdict, class_="clear" if change.verdict in ARROWS else "quiet"),
            )
        )
    note = (
        "Mean ± standard deviation over the steps of a quarter. Rose or fell: by more than twice "
        "the standard error of the difference, steps counted as independent."
    )
    table = element("div", element("table", "".join(rows)), class_="scroll")
    return element("div", table + element("p", note, class_="hint"))


def _board_table(run: Run) -> str:
    places = board(run)
    if not places:
        return ""
    names = ("member", "role", "μ ± σ", "μ − 3σ", "origin")
    rows = [element("tr", "".join(element("th", name) for name in names))]
    for place in places:
        rows.append(
            element(
                "tr",
                element("td", escape(place.name))
                + element("td", escape(place.role))
                + element("td", f"{figure(place.mu)} ± {figure(place.sigma)}", class_="number")
                + element("td", figure(place.lower), class_="number")
                + element("td", escape(place.origin)),
            )
        )
    note = (
        "TrueSkill ratings of the living, best first within a role; μ − 3σ is the cautious "
        "estimate. Teachers and students rate on one scale, as opponents."
    )
    table = element("div", element("table", "".join(rows)), class_="scroll")
    return element("div", table + element("p", note, class_="hint"))
