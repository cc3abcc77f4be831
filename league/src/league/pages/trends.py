"""What moved over time, and whether the predictions came true."""

from league.drawing.axes import BOTTOM, HEIGHT, Axes, figure, rounds_range, widened
from league.drawing.markup import (
    captioned,
    escape,
    notes,
    number,
    plural,
    section,
    side_by_side,
    tiles,
)
from league.pages.gathered import Gathered


def drift_section(gathered: Gathered) -> str:
    """The section with the gap, and the anchors if there are any."""
    found = gathered.drift
    sentence = (
        "Left: students' mean rating minus teachers'. Above 0 and rising: the students gain on the "
        "teachers; it cannot say whether both became better. Right, which can: matches with frozen "
        "members. Blue rises if our students solve more of the frozen teachers' tasks, orange "
        "falls if our teachers' tasks get harder for the frozen students."
    )
    pictures = [captioned("Students minus teachers", _gap(gathered))]
    if found.against_anchors:
        pictures.append(captioned("Against anchors", _against(gathered)))
    words = found.statement
    if found.conserved:
        words += (
            f" In all {plural(found.checked, 'match')} that were checked, what one side gained the "
            "other lost, as it must be."
        )
    elif found.conserved is not None:
        words += (
            f" The weighted mean of two ratings moved by up to {found.largest_imbalance:.2g} in a "
            "match, which it must not."
        )
    if not found.against_anchors:
        anchors = len(gathered.anchors)
        why = "no match with an anchor has been played yet" if anchors else "there are no anchors"
        sentence = (
            "Students' mean rating minus teachers'. Above 0 and rising: the students gain on the "
            f"teachers. Whether both became better it cannot say; {why}."
        )
    return section(
        "Who gains on whom?", sentence, side_by_side(pictures), f"<p>{escape(words)}</p>"
    )


def _gap(gathered: Gathered) -> str:
    found = gathered.drift
    axes = Axes(rounds_range(gathered.rounds), widened([*found.gap, *found.gap_centred, 0.0]))
    raw, centred = (
        list(zip(found.rounds, gap, strict=True)) for gap in (found.gap, found.gap_centred)
    )
    parts = [f'<path class="quiet" d="{axes.path([(axes.x[0], 0.0), (axes.x[1], 0.0)])}"/>']
    if gathered.replacements:
        parts.append(f'<path class="quiet dashed" d="{axes.path(raw)}"/>')
    parts.append(f'<path class="line heavy" d="{axes.path(centred)}"/>')
    dashed = "; dashed: with the jumps at replacements" if gathered.replacements else ""
    return figure(
        axes,
        [f'<g class="student">{"".join(parts)}</g>'],
        about="mean rating of students minus that of teachers",
        y_name=f"rating units{dashed}",
    )


def _against(gathered: Gathered) -> str:
    axes = Axes(rounds_range(gathered.rounds), (0.0, 1.0))
    parts = []
    for role in gathered.boards:
        points = [
            (min((x.first + x.last + 1) / 2, float(gathered.rounds)), x.solve_rate, x)
            for x in gathered.drift.against_anchors
            if x.role == role and x.solve_rate is not None
        ]
        if not points:
            continue
        line = axes.path([(x, y) for x, y, _ in points])
        dots = "".join(
            f'<circle class="dot" cx="{axes.px(x):.1f}" cy="{axes.py(y):.1f}" r="3.5">'
            f"<title>{role}s, rounds {span.first} to {span.last}: {100 * y:.1f} % in "
            f"{plural(span.matches, 'match')}</title></circle>"
            for x, y, span in points
        )
        parts.append(f'<g class="{role}"><path class="line heavy" d="{line}"/>{dots}</g>')
    parts.append(
        '<g class="student"><circle class="dot" cx="196" cy="8" r="4"/></g>'
        '<text x="204" y="12">our students</text>'
        '<g class="teacher"><circle class="dot" cx="300" cy="8" r="4"/></g>'
        '<text x="308" y="12">our teachers</text>'
    )
    about = "solve rates in matches with anchors"
    return figure(axes, parts, about=about, y_name="tasks solved", percent=True)


def offsets(gathered: Gathered) -> str:
    """The sums of the replacement offsets, in words."""
    found = gathered.drift
    return (
        f"Replacements moved the mean of the teachers by {number(found.teacher_offset)} and that "
        f"of the students by {number(found.student_offset)} in all: a change of the zero point."
    )


def calibration_section(gathered: Gathered) -> str:
    """The section; without a match it says so."""
    found = gathered.calibration
    title = "Do the predictions come true?"
    if not found.matches or found.rmse is None or found.bias is None:
        return section(title, f"Not to be said yet: {found.notes[-1]}.")
    sentence = (
        "Before each match the league expects a share of the tasks to go to the student. Matches "
        "are grouped by that expectation; a dot on the diagonal means that as much came true, "
        "below it that students did worse than expected. The small numbers count the matches."
    )
    cells = [
        (number(found.rmse, 3), "typical error of one match's prediction (RMSE, chance included)"),
        (number(found.bias, 3), "observed minus expected, on average"),
    ]
    if found.coverage is not None:
        cells.append((f"{100 * found.coverage:.0f} %", "of matches inside their 95 % interval"))
    if found.log_loss is not None and found.log_loss_constant is not None:
        better = found.log_loss_constant - found.log_loss
        said = "better" if better >= 0 else "worse"
        cells.append((number(abs(better), 4), f"nats per task {said} than always the mean"))
    return section(
        title, sentence, f"<figure>{_plot(gathered)}</figure>", tiles(cells), notes(found.notes)
    )


def _plot(gathered: Gathered) -> str:
    axes = Axes((0.0, 1.0), (0.0, 1.0), height=HEIGHT + 60)
    floor = axes.height - BOTTOM
    most = max(x.matches for x in gathered.calibration.deciles)
    parts = [f'<path class="quiet dashed" d="{axes.path([(0.0, 0.0), (1.0, 1.0)])}"/>']
    for x in gathered.calibration.deciles:
        if x.predicted is None or x.observed is None:
            continue
        radius = 3.0 + 6.0 * (x.matches / most) ** 0.5
        parts.append(
            f'<circle class="dot" cx="{axes.px(x.predicted):.1f}" cy="{axes.py(x.observed):.1f}" '
            f'r="{radius:.1f}"><title>expected {100 * x.predicted:.1f} %, observed '
            f"{100 * x.observed:.1f} %: {plural(x.matches, 'match')}, {x.tasks:,} tasks"
            "</title></circle>"
        )
        middle = axes.px((x.low + x.high) / 2)
        parts.append(
            f'<text class="small tick mid" x="{middle:.1f}" y="{floor - 5:.1f}">'
            f"{x.matches:,}</text>"
        )
    return figure(
        axes,
        [f'<g class="student">{"".join(parts)}</g>'],
        about="observed over expected share of the tasks",
        x_name="expected share for the student",
        y_name="observed",
        percent=True,
        whole=False,
    )
