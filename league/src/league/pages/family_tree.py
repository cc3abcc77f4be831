"""Who lived when and descends from whom: a bar for each life, hung under its main parent."""

from league.drawing.axes import ticks
from league.drawing.markup import captioned, escape, number, section, short, side_by_side
from league.history.history import Life
from league.pages.gathered import Gathered

LIVES = 48
"""At most so many lives of a role are drawn: the living, their ancestors, the latest dead."""
_LEFT, _WIDTH, _ROW, _TOP = 92.0, 420.0, 19.0, 8.0


def tree_section(gathered: Gathered) -> str:
    """The section with its survival figures."""
    sentence = (
        "One bar per member, from the round in which it came to the one in which it was replaced; "
        "full colour: still alive. A child hangs from its main parent's bar at the moment of its "
        "birth (dashed: from a further parent), with the operator that made it."
    )
    pictures, left_out = [], []
    for role in gathered.boards:
        everyone = gathered.history.everyone(role)
        lives = _kept(everyone)
        if len(lives) < len(everyone):
            left_out.append(f"{len(lives)} of {len(everyone)} {role}s")
        pictures.append(captioned(f"{role.capitalize()}s", _tree(gathered, role, _ordered(lives))))
    small = (
        f'<p class="note">Drawn are {escape(" and ".join(left_out))}: the living and their '
        "ancestors first, then the latest.</p>"
        if left_out
        else ""
    )
    return section("Family tree", sentence, small, side_by_side(pictures), _survival(gathered))


def _survival(gathered: Gathered) -> str:
    parts = []
    for side in (gathered.survival.teachers, gathered.survival.students):
        founders = sum(1 for life in gathered.history.everyone(side.role) if not life.parents)
        verb = "has" if side.founders_alive == 1 else "have"
        text = (
            f"{side.founders_alive} of {founders} founding {side.role}s {verb} living descendants"
        )
        if side.takeover is not None and founders > 1:
            text += f"; since round {side.takeover} all descend from {side.takeover_by}"
        if side.median_life is not None:
            text += f"; half of all {side.role}s are replaced within {side.median_life} rounds"
        parts.append(text + ".")
    return f"<p>{escape(' '.join(parts))}</p>"


def _kept(everyone: list[Life]) -> list[Life]:
    if len(everyone) <= LIVES:
        return everyone
    named = {life.name: life for life in everyone}
    living = [life for life in everyone if life.ended is None]
    queue = sorted(living, key=lambda x: -x.born)
    kept: dict[str, Life] = {}
    for life in queue:  # grows while it is read
        if len(kept) >= LIVES:
            break
        if life.name not in kept:
            kept[life.name] = life
            queue += [named[p] for p in life.parents if p in named]
    for life in reversed(everyone):
        if len(kept) < LIVES:
            kept.setdefault(life.name, life)
    return [life for life in everyone if life.name in kept]


def _ordered(lives: list[Life]) -> list[Life]:
    """Children directly under their main parent, the latest nearest, so that no line crosses."""
    names = {life.name for life in lives}
    children: dict[str, list[Life]] = {}
    roots = []
    for life in lives:
        if life.main_parent in names:
            children.setdefault(life.main_parent, []).append(life)
        else:
            roots.append(life)
    ordered: list[Life] = []
    stack = list(reversed(roots))
    while stack:
        life = stack.pop()
        ordered.append(life)
        stack += children.get(life.name, [])  # the latest is taken first
    return ordered


def _tree(gathered: Gathered, role: str, lives: list[Life]) -> str:
    rounds = max(1, gathered.rounds)
    unit = (_WIDTH - _LEFT - 12.0) / rounds
    place = {life.name: row for row, life in enumerate(lives)}
    floor = _TOP + _ROW * len(lives)
    grid, joints, bars = [], [], []
    for mark in ticks(0.0, float(rounds), about=5, whole=True):
        x = _LEFT + unit * mark
        grid.append(
            f'<path class="rule" d="M{x:.1f} {_TOP}V{floor:.1f}"/>'
            f'<text class="tick mid" x="{x:.1f}" y="{floor + 15:.1f}">{mark:,.0f}</text>'
        )
    for row, life in enumerate(lives):
        y = _TOP + _ROW * row
        left = _LEFT + unit * life.born
        wide = max(2.0, unit * ((rounds if life.ended is None else life.ended) - life.born))
        for parent in life.parents:
            if parent in place:
                style = "quiet" if parent == life.main_parent else "quiet dashed"
                start = _TOP + _ROW * place[parent] + _ROW / 2
                joints.append(f'<path class="{style}" d="M{left:.1f} {start:.1f}V{y + 9.5:.1f}"/>')
        bars.append(_life(life, left, wide, y))
    grid.append(f'<text class="tick end" x="{_WIDTH - 4:.0f}" y="{floor + 30:.1f}">rounds</text>')
    height = floor + 36
    return (
        f'<svg class="fluid {role}" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="lives of the {role}s">{"".join(grid)}{"".join(joints)}{"".join(bars)}</svg>'
    )


def _life(life: Life, left: float, wide: float, y: float) -> str:
    style = "bar" if life.ended is None else "dead"
    until = "now" if life.ended is None else str(life.ended)
    made = f"; {life.operator} of {_parents(life)}" if life.parents else ""
    found = (
        f'<text class="small end" x="{_LEFT - 6:.0f}" y="{y + 13:.1f}">'
        f"{escape(short(life.name, 14))}</text>"
        f'<rect class="{style}" x="{left:.1f}" y="{y + 3:.1f}" width="{wide:.1f}" height="13" '
        f'rx="2"><title>{escape(life.name)}: rounds {life.born} to {until}{escape(made)}</title>'
        "</rect>"
    )
    word = short(life.operator, 22)
    room = 6.0 * len(word) + 8.0
    if not word:
        return found
    if left + wide + room < _WIDTH - 8:
        return found + _word(word, left + wide + 4, y, "small tick halo")
    if wide > room:
        inside = "small onbar" if life.ended is None else "small"
        return found + _word(word, left + 4, y, inside)
    if left - room > _LEFT:
        return found + _word(word, left - 4, y, "small tick end halo")
    return found


def _word(text: str, x: float, y: float, style: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y + 13:.1f}">{escape(text)}</text>'


def _parents(life: Life) -> str:
    pairs = zip(life.parents, life.weights, strict=True)
    return " + ".join(f"{name} ({number(weight)})" for name, weight in pairs)
