"""What the game as a whole says: cycles, the hardest mixtures to beat, and how many differ."""

from league.drawing.markup import (
    captioned,
    escape,
    html_table,
    notes,
    number,
    percent,
    section,
    short,
    side_by_side,
    tiles,
)
from league.games.interaction import Interaction
from league.pages.gathered import Gathered

_BARS = 10
_ODD = 6
_LEAST = 0.005


def verdict(found: Interaction) -> str:
    """The interaction in words."""
    if not found.found:
        return (
            "One rating per member is enough: what the ratings do not explain is no more than "
            f"chance leaves (p = {found.p_value:.2f})."
        )
    size = "a small" if found.share < 0.1 else "a sizeable" if found.share < 0.3 else "a large"
    return (
        f"One rating per member is not the whole story: {size} part of the differences between "
        f"pairs ({percent(found.share)}) is who meets whom, more than chance leaves "
        f"(p = {found.p_value:.3f})."
    )


def interaction_section(gathered: Gathered) -> str:
    """Does a ranking describe the league, or are there cycles?"""
    title = "Is there a ranking at all?"
    found = gathered.interaction
    if found is None:
        return section(title, f"Not to be said yet: {gathered.missing['interaction']}.")
    sentence = (
        "In a league with a ranking, whoever beats the strong beats the weak. If A beats B, B "
        "beats C and C beats A, no ranking exists, and ratings hide it. Measured is the share of "
        "the differences between pairs that one rating per member cannot explain; 0 % means a "
        "clean ranking. Members that learn at different speeds leave something too."
    )
    cells = [
        (percent(found.share), "of the variance between pairs is who meets whom"),
        (number(found.p_value, 3), "how often chance alone leaves as much (p)"),
    ]
    parts = [f"<p><b>{escape(verdict(found))}</b></p>", tiles(cells)]
    if found.oddities:
        rows = [
            (x.teacher, x.student, percent(x.observed), percent(x.fitted), number(x.z, 1))
            for x in found.oddities[:_ODD]
        ]
        parts.append("<p>The pairs that surprise most:</p>")
        header = ("teacher", "student", "solved", "by ratings", "standard errors apart")
        parts.append(html_table(header, rows, words=2))
    return section(title, sentence, *parts, notes(found.notes))


def nash_section(gathered: Gathered) -> str:
    """Who is needed when the other side plays as hard as it can."""
    title = "Who matters when the other side plays its best?"
    found = gathered.nash
    if found is None:
        return section(title, f"Not to be said yet: {gathered.missing['nash']}.")
    sentence = (
        "Each side may choose the mixture of its members that the other side can exploit least "
        "(Nash averaging). A long bar means that the member is needed in that mixture; members "
        "without one add nothing that others do not do better. Copies share one bar's length."
    )
    gains = (
        (found.uniform.teacher_gain, "teacher", "student"),
        (found.uniform.student_gain, "student", "teacher"),
    )
    cells = [
        (percent(found.value), "of the tasks go to the students when both sides play their best")
    ]
    cells += [
        (
            percent(gain),
            f"of the tasks: what the best single {role} gains if all {other}s play equally often",
        )
        for gain, role, other in gains
    ]
    sides = [[(x.member, x.weight) for x in side] for side in (found.teachers, found.students)]
    return section(title, sentence, _both(gathered, *sides), tiles(cells), notes(found.notes))


def alpha_rank_section(gathered: Gathered) -> str:
    """Who would be left if copies of successful members took over."""
    title = "Who would take over?"
    found = gathered.alpha_rank
    if found is None:
        return section(title, f"Not to be said yet: {gathered.missing['alpha_rank']}.")
    sentence = (
        "Imagine that each role holds copies of one member, and that now and then a copy of "
        "another appears and takes over if it does better (alpha-rank). A bar is the share of "
        "time that a member rules its role; several long bars: they chase each other in circles."
    )
    teachers = list(zip(found.teachers, found.teacher_mass, strict=True))
    students = list(zip(found.students, found.student_mass, strict=True))
    return section(title, sentence, _both(gathered, teachers, students), notes(found.notes))


def diversity_section(gathered: Gathered) -> str:
    """How many members are different in effect."""
    title = "How many different members are there in effect?"
    found = gathered.diversity
    if found is None:
        return section(title, f"Not to be said yet: {gathered.missing['diversity']}.")
    sentence = (
        "Members that win and lose against the same opponents count as one: from 1 (all alike) to "
        "the size of the role. Chance makes even equal members look different, so only a number "
        "above what equal members would reach shows diversity."
    )
    cells = [
        (
            f"{value:.1f} of {count}",
            f"{role}s in effect; equal ones would stay below {alike:.1f}: "
            + ("diverse" if value > alike else "no diversity is shown"),
        )
        for role, value, alike, count in (
            ("teacher", found.teachers, found.teachers_alike, found.teacher_count),
            ("student", found.students, found.students_alike, found.student_count),
        )
    ]
    return section(title, sentence, tiles(cells), notes(found.notes))


def _both(
    gathered: Gathered, teachers: list[tuple[str, float]], students: list[tuple[str, float]]
) -> str:
    """Bars of (name, share) for both roles."""
    return side_by_side(
        captioned(f"{role.capitalize()}s", _bars(role, members, gathered))
        for role, members in zip(gathered.boards, (teachers, students), strict=True)
    )


def _bars(role: str, members: list[tuple[str, float]], gathered: Gathered) -> str:
    ranked = sorted(members, key=lambda x: -x[1])
    kept = [x for x in ranked if x[1] >= _LEAST][:_BARS]
    most = kept[0][1]
    unplayed = gathered.unplayed
    parts = []
    for row, (name, weight) in enumerate(kept):
        y = 4 + row * 24
        wide = max(1.0, 160.0 * weight / most)
        doubt = ", not played yet" if name in unplayed else ""
        parts.append(
            f'<text class="end" x="116" y="{y + 13}">{escape(short(name, 15))}</text>'
            f'<rect class="bar" x="124" y="{y}" width="{wide:.1f}" height="17" rx="2">'
            f"<title>{escape(name)}: {100 * weight:.1f} %</title></rect>"
            f'<text x="{130 + wide:.1f}" y="{y + 13}">{100 * weight:.0f} %{doubt}</text>'
        )
    height = 10 + 24 * len(kept)
    if len(kept) < len(members):
        left_out = sum(weight for _, weight in ranked[len(kept) :])
        parts.append(
            f'<text class="tick" x="124" y="{height + 8}">{len(members) - len(kept)} more with '
            f"{100 * left_out:.0f} % in all</text>"
        )
        height += 18
    return (
        f'<svg class="fluid {role}" viewBox="0 0 420 {height}" role="img" '
        f'aria-label="shares of the {role}s">{"".join(parts)}</svg>'
    )
