"""The verbs of the `league` command about what happened over time."""

import textwrap

import click

from league.commands.options import analysis_command, since_option
from league.commands.output import LINES, MANY, MORE, first_rows, number, print_table
from league.history.calibration import Calibration, calibration
from league.history.drift import Drift, drift
from league.history.generations import Cohort, Generations, generations
from league.history.survival import Survival, survival

_WIDTH = 95
_cohorts = click.option("--cohorts", default=12, show_default=True, help="At most so many a side.")


@analysis_command("calibration", calibration, since_option)
def calibration_command(found: Calibration) -> None:
    """Compare expected with observed shares of tasks, by tenths of the expectation."""
    rows = [
        (f"{x.low:.1f}-{x.high:.1f}", x.matches, x.tasks, x.predicted, x.observed)
        for x in found.deciles
    ]
    print_table(("expected", "matches", "tasks", "mean expected", "observed"), rows)
    summary = [
        ("log-loss, nats per task", number(found.log_loss)),
        ("  always expecting the mean", number(found.log_loss_constant)),
        ("  knowing each result", number(found.log_loss_best)),
        ("RMSE, chance included", number(found.rmse)),
        ("bias, observed - expected", number(found.bias)),
        ("inside 95 % intervals", number(found.coverage)),
    ]
    click.echo()
    print_table(("over all matches", "value"), summary, found.notes)


@analysis_command("survival", survival)
def survival_command(found: Survival) -> None:
    """Show how long members last and whose descendants are left."""
    sides = (found.teachers, found.students)
    rows = [
        (x.role, x.members, x.living, x.median_life, x.founders_alive, x.takeover, x.takeover_by)
        for x in sides
    ]
    header = ("role", "members", "living", "median life", "founders alive", "takeover", "by")
    print_table(header, rows)
    lines = [
        (x.role, line.founder, line.living, line.ancestry)
        for x in sides
        for line in first_rows(x.lines, x.lines)
    ]
    click.echo()
    print_table(("role", "founder", "living by main parents", "ancestry"), lines, found.notes)
    if any(len(x.lines) > MANY for x in sides):
        click.echo(MORE)


@analysis_command("drift", drift)
def drift_command(found: Drift) -> None:
    """Show how the two sides' ratings move, and what can be read from that."""
    columns = (found.teacher_mean, found.student_mean, found.gap, found.gap_centred)
    step = max(1, -(-len(found.rounds) // LINES))
    shown = sorted({*range(0, len(found.rounds), step), len(found.rounds) - 1})
    rows = [(found.rounds[i], *(values[i] for values in columns)) for i in shown]
    print_table(("rounds", "teachers", "students", "gap", "gap without replacement jumps"), rows)
    if found.against_anchors:
        spans = [
            (x.role, f"{x.first}-{x.last}", x.matches, x.tasks, x.solve_rate)
            for x in found.against_anchors
        ]
        click.echo()
        print_table(("against anchors", "rounds", "matches", "tasks", "solve rate"), spans)
    kept = {True: "is kept", False: "is NOT kept", None: "could not be followed"}[found.conserved]
    click.echo(
        f"\n{textwrap.fill(found.statement, _WIDTH)}\n"
        f"The weighted mean of a match's two ratings {kept} ({found.checked} matches checked)."
    )


@analysis_command("generations", generations, _cohorts)
def generations_command(found: Generations) -> None:
    """Show solve rates of students by birth against teachers by birth; a dot if never met."""
    rows = [
        (f"born {_span(cohort)}", *cells)
        for cohort, cells in zip(found.teachers, found.solve_rate, strict=True)
    ]
    print_table(("teachers", *(f"students {_span(c)}" for c in found.students)), rows, found.notes)


def _span(cohort: Cohort) -> str:
    return str(cohort.first) if cohort.first == cohort.last else f"{cohort.first}-{cohort.last}"
