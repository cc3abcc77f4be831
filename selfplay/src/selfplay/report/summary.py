"""What a run was and what moved, in words: for the terminal and for the top of the page."""

import math
from dataclasses import dataclass
from pathlib import Path

from league.drawing.words import visible
from selfplay.report.measures import Measure, moved_measures, solve_rates
from selfplay.report.reading.drift import drift_sentence
from selfplay.report.reading.lineage import lives
from selfplay.report.reading.run_data import Run, read_run
from selfplay.report.reading.standing import conclusion, standing_lines
from selfplay.report.reading.trend import Quarter, Trend, trend
from selfplay.report.reading.worker_times import worker_times
from selfplay.report.times import phase_seconds, waited_for
from selfplay.report.words import duration, figure

WIDTH = 28
MOST_CHILDREN = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A living member on the board; `lower` is mu - 3 sigma, TrueSkill's cautious estimate."""

    name: str
    role: str
    mu: float
    sigma: float
    origin: str

    @property
    def lower(self) -> float:
        """mu - 3 sigma."""
        return self.mu - 3.0 * self.sigma


def headline(run: Run) -> str:
    """Return one sentence: who played, on which base, for how many steps."""
    mode, base = run.config.get("mode", "populora"), run.config.get("base", "an unnamed base")
    planned = run.config.get("steps")
    steps = _many(len(run.steps), "step")
    if isinstance(planned, int) and planned > run.last:
        steps = f"{run.last} of {planned} steps so far"
    if mode == "azr":
        who = "One agent in both roles (mode azr)"
    else:
        teachers = _many(run.config.get("teachers", "?"), "teacher")
        who = f"{teachers} and {_many(run.config.get('students', '?'), 'student')} (mode {mode})"
    return visible(f"{who} on the base model {base}: {steps}, seed {run.config.get('seed', '?')}.")


def costs(run: Run) -> str:
    """Return one sentence: time, tokens and memory."""
    seconds = sum(phase_seconds(run).values())
    parts = [f"It took {duration(seconds)}"]
    sampled = sum(step.tokens.sampled for step in run.steps)
    trained = sum(step.tokens.trained for step in run.steps)
    if sampled or trained:
        parts.append(f"{sampled:,.0f} tokens sampled and {trained:,.0f} trained on")
    memory = max((m for s in run.steps if isinstance(m := s.memory_mb, float)), default=0.0)
    if memory:
        parts.append(f"at most {memory:,.0f} MB of memory")
    times = worker_times(run)
    text = ", ".join(parts) + "."
    return f"{text} {len(times)} workers. {waited_for(times)}" if times else text


def moved(run: Run) -> list[tuple[Measure, Trend]]:
    """Return the measures with their first and last quarter, those without numbers left out."""
    found = [(measure, trend(measure.values(run))) for measure in moved_measures(run.kinds)]
    return [(measure, change) for measure, change in found if change is not None]


def quarter_text(quarter: Quarter, share: bool) -> str:
    """Return `mean ± spread`, both to the spread's second significant digit at most."""
    if quarter.spread is None:
        return figure(quarter.mean, share)
    scale, unit = (100.0, " %") if share else (1.0, "")
    mean, spread = scale * quarter.mean, scale * quarter.spread
    places = min(max(1 - math.floor(math.log10(spread)), 0), 2) if spread > 0 else 2
    places = min(places, 1) if share else places
    return f"{mean:.{places}f} ± {spread:.{places}f}{unit}".replace("-", "−")


def reading(run: Run) -> str:
    """Return a cautious sentence about the direction of the run, told only by clear changes."""
    verdicts = {measure.title: change.verdict for measure, change in moved(run)}
    shapes = ("AST depth", "Cyclomatic complexity", "Lines of code", "Variables")
    fell = sum(verdicts.get(name) == "fell" for name in shapes)
    rose = sum(verdicts.get(name) == "rose" for name in shapes)
    if verdicts.get("Solve rate") == "rose" and fell >= 2:
        return (
            "Students solve more and programs got simpler: the pattern that the PopuLoRA paper "
            "reports of a single agent settling on easy tasks."
        )
    if rose >= 2 and not fell:
        return (
            "Programs got more complex, as the PopuLoRA paper reports of populations; a run with "
            "learning rate 0 beside this one tells how much of it is training."
        )
    if all(verdict in ("no clear change", "too few steps") for verdict in verdicts.values()):
        return "Nothing moved beyond the noise between steps."
    return ""


def board(run: Run) -> list[Place]:
    """Return the living members with a rating, by role, best lower bound first."""
    rated = next((step.ratings for step in reversed(run.steps) if step.ratings), {})
    places = [
        Place(
            life.name,
            life.role,
            *rated[life.name],
            origin=(
                f"child of {' × '.join(life.birth.parents)} by {life.birth.operator}"
                if life.birth
                else "founder"
            ),
        )
        for life in lives(run)
        if life.died is None and life.name in rated
    ]
    return sorted(places, key=lambda place: (place.role != "teacher", place.role, -place.lower))


def summary_text(run: Path) -> str:
    """Return about 15 lines of plain text about a run, for a terminal.

    Raises `RunDirectoryError` when the folder is no run or is damaged.
    """
    data = read_run(run)
    rates = {measure.title for measure in solve_rates(data.kinds)}
    wanted = {"Student reward", "Teacher reward", "Valid share", "AST depth"} | rates
    wanted.add("Students minus frozen base")
    told = filter(None, (headline(data), costs(data), drift_sentence(data)))
    lines = [*told, "", *standing_lines(data.standings), ""]
    lines.append(f"{'':{WIDTH}}{'first quarter':>18}{'last quarter':>18}")
    for measure, change in moved(data):
        if measure.title in wanted:
            first = quarter_text(change.first, measure.share)
            last = quarter_text(change.last, measure.share)
            lines.append(f"{measure.title:{WIDTH}}{first:>18}{last:>18}  {change.verdict}")
    structures = data.steps[-1].coverage.structures
    if structures is not None:
        lines.append(f"{'Program structures':{WIDTH}}{'':18}{structures:>18,.0f}  in all")
    lines.append("")
    for role in dict.fromkeys(place.role for place in board(data)):
        ranked = [place for place in board(data) if place.role == role]
        shown = [f"{p.name} {figure(p.mu)} ± {figure(p.sigma)}" for p in ranked]
        lines.append(f"Ratings, {role}s: {', '.join(shown)}")
    if data.births:
        born = [
            f"{b.child} from {' × '.join(b.parents)} by {b.operator} after step {b.step}"
            for b in data.births
        ]
        rest = [f"and {len(born) - MOST_CHILDREN} more"] if len(born) > MOST_CHILDREN else []
        lines += [
            f"{'Children: ' if i == 0 else '':10}{words}"
            for i, words in enumerate([*born[:MOST_CHILDREN], *rest])
        ]
    totals = phase_seconds(data)
    whole = sum(totals.values())
    if whole > 0:
        shares = [f"{name} {100 * s / whole:.0f} %" for name, s in totals.items() if s]
        lines.append(f"Time: {', '.join(shares)}")
    lines += ["", conclusion(data.standings)] if data.standings else []
    return "\n".join(visible(line.rstrip()) for line in lines)


def _many(count: object, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
