"""The top of the page as tables: living members against the frozen base, what moved, who leads."""

from dataclasses import dataclass

from markupsafe import Markup

from league.drawing.words import Listing
from selfplay.report.reading.drift import drift_sentence
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.standing import (
    base_teaching,
    conclusion,
    latest,
    rate_text,
    sampling,
    solvers,
    teachers,
)
from selfplay.report.summary import board, costs, headline, moved, quarter_text, reading
from selfplay.report.words import figure

ARROWS = {"rose": Markup("<b>▲ rose</b>"), "fell": Markup("<b>▼ fell</b>")}


@dataclass(frozen=True, slots=True)
class Standing:
    """What a run's last measurement against the frozen base says."""

    conclusion: str
    tasks: int
    samples: int
    solving: Listing
    teaching: Listing


@dataclass(frozen=True, slots=True)
class Overview:
    """A run in words, the measures that moved, and its ratings."""

    words: str
    moved: Listing
    board: Listing


def standing_of(run: Run) -> Standing:
    """Return the standing of a run that was measured."""
    last = latest(run.standings)
    rates = {s.member: s.rate for s in solvers(last) if s.rate}
    kinds = sorted({kind for rate in rates.values() for kind in rate.kinds})
    solving = [
        (
            member,
            rate_text(rate),
            *(_points(rate.kinds[k].difference) if k in rate.kinds else "" for k in kinds),
            "" if rate.tokens is None else f"{rate.tokens:.0f}",
        )
        for member, rate in rates.items()
    ]
    teaching = [
        (
            s.member,
            "–" if t.base_solve_rate is None else f"{100 * t.base_solve_rate:.1f} %",
            "–" if t.valid_share is None else f"{100 * t.valid_share:.1f} %",
            "" if t.reward is None else f"{t.reward:+.2f}",
            t.new_structures,
        )
        for s in [*base_teaching(run.standings), *teachers(last)]
        if (t := s.taught)
    ]
    tasks, samples = sampling(solvers(last)[0]) if solving else (0, 0)
    taught = ("", "solved by the base", "valid", "reward", "new structures")
    return Standing(
        conclusion(run.standings),
        tasks,
        samples,
        Listing(("", "base → member", *kinds, "tokens an answer"), solving),
        Listing(taught, teaching if len(teaching) > 1 else ()),
    )


def overview_of(run: Run) -> Overview:
    """Return what a run was, what moved in it, and who leads."""
    changes = [
        (
            measure.title,
            quarter_text(change.first, measure.share),
            quarter_text(change.last, measure.share),
            ARROWS.get(change.verdict, change.verdict),
        )
        for measure, change in moved(run)
    ]
    places = [
        (p.name, p.role, p.origin, f"{figure(p.mu)} ± {figure(p.sigma)}", figure(p.lower))
        for p in board(run)
    ]
    sentences = (headline(run), costs(run), drift_sentence(run), reading(run))
    return Overview(
        " ".join(filter(None, sentences)),
        Listing(("", "first quarter", "last quarter", ""), changes),
        Listing(("member", "role", "origin", "μ ± σ", "μ − 3σ"), places, words=3),
    )


def _points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f}"
