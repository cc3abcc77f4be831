"""The whole page, and its file."""

from pathlib import Path

from league.basics.errors import LeagueError
from league.drawing.frame import framed
from league.drawing.markup import escape, notes, percent, plural, tiles
from league.events.files import EVENTS, LOCK, SETTINGS, SNAPSHOT, write_atomically
from league.pages.bands import bands_section
from league.pages.family_tree import tree_section
from league.pages.gathered import NO_MATCH, Gathered
from league.pages.mixtures import (
    alpha_rank_section,
    diversity_section,
    interaction_section,
    nash_section,
)
from league.pages.tables import (
    board_section,
    generations_section,
    payoff_section,
    replacement_section,
)
from league.pages.trends import calibration_section, drift_section


def page(gathered: Gathered) -> str:
    """The page as one text: nothing in it is fetched or run, all names are escaped, and the same
    league gives the same bytes."""
    teachers, students = gathered.boards.values()
    body = [
        f"<h1>League {escape(gathered.name)}</h1>",
        "<p>Teachers set tasks, students solve them; who plays whom and who is replaced follows "
        "from the ratings below. <b>Teachers are orange, students blue.</b></p>",
        tiles(_headlines(gathered)),
    ]
    if not gathered.history.matches:
        body.append(notes([f"{NO_MATCH}: the ratings below are what everybody starts with"]))
    elif gathered.since:
        which = "calibration, interaction, Nash averaging and diversity are of round"
        body.append(notes([f"{which} {gathered.since} and later"]))
    body += [
        bands_section(gathered),
        board_section(gathered),
        payoff_section(gathered),
        drift_section(gathered),
        generations_section(gathered),
        calibration_section(gathered),
        interaction_section(gathered),
        nash_section(gathered),
        alpha_rank_section(gathered),
        diversity_section(gathered),
        tree_section(gathered),
        replacement_section(gathered),
        _settings(gathered),
    ]
    title = f"League {gathered.name}: {len(teachers)} teachers, {len(students)} students"
    return framed(title, body)


def _headlines(gathered: Gathered) -> list[tuple[str, str]]:
    past = gathered.history
    teachers, students = gathered.boards.values()
    attempts = sum(match.attempts for match in past.matches)
    solved = sum(match.solved for match in past.matches)
    cells = [
        (f"{len(teachers)} + {len(students)}", "teachers and students alive"),
        (f"{gathered.rounds:,}", f"rounds, {plural(len(past.matches), 'match')} played"),
    ]
    if attempts:
        cells.append((percent(solved / attempts), "of all rollouts solved their task"))
    cells += [
        (rows[0].member, f"first {role} by {gathered.config.fitness.replace('_', ' ')}")
        for role, rows in gathered.boards.items()
        if past.matches
    ]
    cells.append((f"{len(gathered.replacements):,}", "members replaced"))
    if gathered.anchors:
        cells.append((f"{len(gathered.anchors):,}", "anchors: frozen, played against only"))
    if gathered.interaction is not None:
        found = "cycles" if gathered.interaction.found else "no cycles"
        cells.append((found, "found by the test for who-meets-whom effects"))
    return cells


def _settings(gathered: Gathered) -> str:
    config = gathered.config
    text = (
        f"Rating scheme {config.scheme}, matcher {config.matcher}, tau {config.tau:g}, ranked by "
        f"{config.fitness}, selection {config.selection}, seed {config.seed}."
    )
    return f'<section><p class="note">{escape(text)}</p></section>'


_OWN = (SETTINGS, EVENTS, SNAPSHOT, LOCK)


def save(html: str, path: Path) -> None:
    """Write a page. Raises LeagueError if the path is a folder, has none, or is a league's file."""
    if path.is_dir() or not path.parent.is_dir():
        found = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise LeagueError(f"cannot write {path}: {found}; name a file in a folder that exists")
    if path.name in _OWN and (path.parent / SETTINGS).exists():
        raise LeagueError(f"{path} belongs to a league; name another file, such as report.html")
    content = html.encode()
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a terminal cannot be renamed over
    else:
        write_atomically(path, content)
