"""Expected against observed solve rates: does matchmaking know what it does?"""

from league.drawing.axes import BOTTOM, HEIGHT, Axes, figure
from league.drawing.markup import notes, number, plural, section, tiles
from league.pages.gathered import Gathered


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
