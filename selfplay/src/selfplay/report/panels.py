"""The figures of a page: each chart under a name of its own, with a title and a hint."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import altair as alt

from selfplay.report.curves import curve, ratings
from selfplay.report.lineage_tree import birth_place, births_table, lineage
from selfplay.report.measures import Measure
from selfplay.report.reading.lineage import lives
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.worker_times import worker_times
from selfplay.report.shares import phase_table, phases, rejected, task_shares, worker_table
from selfplay.report.times import waited_for

RATING_HINTS = {
    "teacher": "Up: the students it meets solve fewer of its tasks. The game is zero-sum, so "
    "teachers rise only where students fall.",
    "student": "Up: it solves more of the tasks it is given than its rating foretold.",
}
LINEAGE_HINT = (
    "Each lane is a place in the population. A bar is a member's life; at an evolution step the "
    "weakest (×) makes room for a child, and lines lead from its parents to it; a click or Enter "
    "on the child leads to what was done to them."
)
REJECTED_HINT = "Why the verifier turned proposals down; what is missing to 100 % was accepted."
RHO_HINT = (
    "ρ is the share of right attempts at a task. Tasks between 0 and 1 teach the student; "
    "where all attempts end alike, nothing is learnt."
)


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure: heading, one sentence on how to read it, and its chart's name; "" without one."""

    title: str
    hint: str
    name: str


@dataclass
class Panels:
    """The charts of a page, by names that are fit for files."""

    charts: dict[str, alt.LayerChart] = field(default_factory=dict)

    def add(self, title: str, hint: str, chart: alt.LayerChart | None) -> list[Panel]:
        """Name a chart and return its panel; nothing for None."""
        if chart is None:
            return []
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "chart"
        name, count = slug, 1
        while name in self.charts:
            count += 1
            name = f"{slug}-{count}"
        self.charts[name] = chart
        return [Panel(title, hint, name)]

    def curves(self, runs: Sequence[Run], measures: Sequence[Measure]) -> list[Panel]:
        """Return a panel a measure, those without any value left out."""
        return [panel for m in measures for panel in self.add(m.title, m.hint, curve(runs, m))]

    def population(self, run: Run) -> dict[str, object]:
        """Return ratings, lineage and tasks of a run."""
        roles = sorted({life.role for life in lives(run)}, reverse=True)
        rated = [
            self.add(f"Ratings of the {role}s", RATING_HINTS.get(role, ""), ratings(run, role))
            for role in roles
        ]
        turned_down = self.add("Rejected proposals", REJECTED_HINT, rejected(run))
        none = [Panel("Rejected proposals", "No proposal was rejected.", "")]
        solved = self.add("Solve rate of the tasks", RHO_HINT, task_shares(run))
        return {
            "ratings": [panel for some in rated for panel in some],
            "lineage": next(iter(self.add("Lineage", LINEAGE_HINT, lineage(run))), None),
            "births": births_table(run),
            "places": [birth_place(run, birth.child) for birth in run.births],
            "tasks": [*(turned_down or none), *solved],
        }

    def time(self, run: Run, named: bool) -> list[tuple[Panel, object]]:
        """Return where the time of a run went: of its phases a bar, and a table each."""
        title = f"Where the time of {run.name} went" if named else "Where the time went"
        found = self.add(title, "Seconds in each phase of the steps.", phases(run))
        tables: list[tuple[Panel, object]] = [(panel, phase_table(run)) for panel in found]
        if workers := worker_times(run):
            title = f"Workers of {run.name}" if named else "Workers"
            tables.append((Panel(title, waited_for(workers), ""), worker_table(workers)))
        return tables
