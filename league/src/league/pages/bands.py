"""Rating bands over rounds: what the league believes of each member, and how surely."""

import math

import numpy as np

from league.basics.data import Floats
from league.drawing.axes import TOP, Axes, Points, figure, rounds_range, spread, widened
from league.drawing.markup import captioned, escape, number, section, short, side_by_side
from league.history.drift import jumps
from league.history.history import History, Life
from league.pages.gathered import Gathered
from league.rating.normal import Z95

LIVING = 8
"""So many living members of a role are drawn, the best."""
LIVES = 40
"""At most so many lives of a role are drawn."""
_POINTS = 1200

Range = tuple[float, float]


def bands_section(gathered: Gathered) -> str:
    """The section: both roles as they are, and centred where members have been replaced."""
    chosen = {role: shown_lives(gathered, role) for role in gathered.boards}
    sentence = (
        "Each line is one member's rating mu; the skill lies inside its band with 95 % "
        "probability, so bands that overlap are not told apart. A new member begins where its "
        "parents were, with a wider band; a cross ends a member that was replaced. "
    )
    sentence += (
        "Dashed lines are frozen anchors, which never learn: the others rise above them by "
        "becoming better. Apart from them, ratings of the two roles are relative to each other."
        if gathered.anchors
        else "Ratings of the two roles are relative to each other: both sides may improve while "
        "neither line moves."
    )
    living = {role: len(board) for role, board in gathered.boards.items()}
    large = [role for role in living if living[role] > LIVING]
    left_out = [f"the {LIVING} best of {living[role]} living {role}s" for role in large]
    for role in gathered.boards:
        everyone = len(gathered.history.everyone(role))
        if role not in large and everyone > len(chosen[role]):
            left_out.append(f"the {len(chosen[role])} latest of {everyone} {role}s")
    mean = " The grey line is the mean of all." if large else ""
    small = (
        f'<p class="note">Drawn are {escape(" and ".join(left_out))}.{mean}</p>' if left_out else ""
    )
    parts = [side_by_side(_both(gathered, chosen, centred=False))]
    if gathered.replacements:
        parts.append(
            '<p class="apart">Below, the same without the jumps of a role\'s mean at replacements '
            "(ticks on top): a weak member leaves and a better one's child comes, which moves the "
            "mean though nobody has learned.</p>"
        )
        parts.append(side_by_side(_both(gathered, chosen, centred=True)))
    return section("Ratings over rounds", sentence, small, *parts)


def shown_lives(gathered: Gathered, role: str) -> list[Life]:
    """The lives of a role that are drawn, in order of arrival."""
    living = [row.member for row in gathered.boards[role]]
    everyone = gathered.history.everyone(role)
    kept = set(living[:LIVING])
    if len(living) <= LIVING:
        gone = [life.name for life in everyone if life.ended is not None]
        kept |= set(gone[max(0, len(gone) + len(living) - LIVES) :])
    return [life for life in everyone if life.name in kept]


def _both(gathered: Gathered, chosen: dict[str, list[Life]], centred: bool) -> list[str]:
    past = gathered.history
    moved = {r: jumps(past, r) if centred else np.zeros(len(past.sampled)) for r in gathered.boards}
    column = {life.name: i for i, life in enumerate(past.lives)}
    anchors = [] if centred else [life.rating.mu for life in gathered.anchors]
    y = _range(
        past,
        anchors,
        [(column[x.name], moved[role]) for role in gathered.boards for x in chosen[role]],
    )
    return [
        captioned(
            f"{role.capitalize()}s{', centred' if centred else ''}",
            _plot(gathered, role, chosen[role], moved[role], y, anchored=not centred),
        )
        for role in gathered.boards
    ]


def _range(past: History, others: list[float], curves: list[tuple[int, Floats]]) -> Range:
    """What all bands need, without the widest of the beginning: those run out of the picture."""
    known = ~np.isnan(past.sigma)
    usual = 1.5 * float(np.median(past.sigma[known])) if known.any() else 0.0
    ends = list(others)
    for column, moved in curves:
        reach = Z95 * np.minimum(past.sigma[:, column], usual)
        for side in (-1.0, 1.0):
            edge = past.mu[:, column] - moved + side * reach
            ends += edge[~np.isnan(edge)].tolist()
    return widened(ends)


def _plot(
    gathered: Gathered, role: str, lives: list[Life], moved: Floats, y: Range, anchored: bool
) -> str:
    past = gathered.history
    column = {life.name: i for i, life in enumerate(past.lives)}
    axes = Axes(rounds_range(past.rounds), y, right=74.0)
    alive = int((~np.isnan(past.mu[:, [column[x.name] for x in lives]])).sum())
    every = max(1, math.ceil(alive / _POINTS))
    at_once = min(LIVING, len(gathered.boards[role]))
    style = "band" if at_once <= 5 else "band thin"
    bands, lines, labels = [], [], []
    for life in lives:
        mu = past.mu[:, column[life.name]] - moved
        sigma = past.sigma[:, column[life.name]]
        where = np.flatnonzero(~np.isnan(mu)).tolist()
        if not where:
            continue
        where = [i for k, i in enumerate(where) if k % every == 0 or k == len(where) - 1]
        middle = [(float(past.sampled[i]), float(mu[i])) for i in where]
        reach = [Z95 * float(sigma[i]) for i in where]
        bands.append(_band(axes, middle, reach, style))
        gone = life.ended is not None
        title = f"{life.name}: {number(middle[-1][1], 1)} ± {number(reach[-1], 1)}"
        dim = " gone" if gone else ""
        lines.append(
            f'<path class="line{dim}" d="{axes.path(middle)}"><title>{escape(title)}</title></path>'
        )
        x, height = axes.px(middle[-1][0]), axes.py(middle[-1][1])
        if gone:
            lines.append(f'<path class="cross" d="M{x - 3:.1f} {height - 3:.1f}l6 6m0 -6l-6 6"/>')
        else:
            labels.append((life.name, x, height))
        if len(middle) == 1:
            lines.append(f'<circle class="dot" cx="{x:.1f}" cy="{height:.1f}" r="3"/>')
            ends = [axes.py(middle[0][1] + side * reach[0]) for side in (1.0, -1.0)]
            lines.append(f'<path class="line" d="M{x:.1f} {ends[0]:.1f}V{ends[1]:.1f}"/>')
    frozen = _anchors(gathered, role, axes) if anchored else []
    if len(gathered.boards[role]) > LIVING:
        frozen.append(_mean(gathered, role, axes, moved))
    parts = [*bands, *frozen, *_ticks(gathered, role, axes), *lines]
    parts += _labels(axes, labels)
    return figure(
        axes,
        [f'<g class="{role}">{"".join(parts)}</g>'],
        about=f"ratings of {role}s over rounds",
        y_name="mu, relative",
    )


def _band(axes: Axes, middle: Points, reach: list[float], style: str) -> str:
    rows = list(zip(middle, reach, strict=True))
    edge = [(x, y + r) for (x, y), r in rows] + [(x, y - r) for (x, y), r in reversed(rows)]
    return f'<path class="{style}" d="{axes.path(edge)}Z"/>'


def _mean(gathered: Gathered, role: str, axes: Axes, moved: Floats) -> str:
    """The mean rating of all living members of a role."""
    found = gathered.drift
    mean = np.array(found.teacher_mean if role == "teacher" else found.student_mean) - moved
    points = list(zip(found.rounds, mean.tolist(), strict=True))
    return f'<path class="quiet heavy" d="{axes.path(points)}"/>'


def _anchors(gathered: Gathered, role: str, axes: Axes) -> list[str]:
    """Frozen members as flat lines, from when they were frozen on."""
    return [
        f'<path class="quiet dashed" d="M{axes.px(life.born):.1f} {axes.py(life.rating.mu):.1f}'
        f'H{axes.px(axes.x[1]):.1f}"><title>{escape(life.name)}, frozen at '
        f"{number(life.rating.mu, 1)}</title></path>"
        for life in gathered.anchors
        if life.role == role
    ]


def _ticks(gathered: Gathered, role: str, axes: Axes) -> list[str]:
    times = sorted({life.born for life in gathered.history.everyone(role) if life.parents})
    marks = "".join(f"M{axes.px(time):.1f} {TOP - 6:.1f}v6" for time in times)
    return [f'<path class="quiet" d="{marks}"/>'] if marks else []


def _labels(axes: Axes, labels: list[tuple[str, float, float]]) -> list[str]:
    placed = spread([y for _, _, y in labels], 12.5, TOP + 4, axes.height - 42)
    edge = axes.px(axes.x[1])
    return [
        f'<text class="small" x="{edge + 5:.1f}" y="{y + 3.5:.1f}">{escape(short(name, 11))}</text>'
        for (name, _, _), y in zip(labels, placed, strict=True)
    ]
