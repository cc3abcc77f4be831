"""What a report is made of: every analysis, run once on one history."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from league.basics.data import Cells, PlainData
from league.basics.errors import LeagueError, whole_number
from league.games.alpha_rank import AlphaRank, alpha_rank
from league.games.diversity import Diversity, diversity
from league.games.game import FILL, game
from league.games.interaction import Interaction, interaction
from league.games.nash import Nash, nash
from league.history.calibration import Calibration, calibration
from league.history.drift import Drift, drift
from league.history.generations import Generations, generations
from league.history.history import History, Life, history
from league.history.ranks import RankInterval, rank_intervals
from league.history.survival import Survival, survival
from league.league import League
from league.rating.rating import Rating
from league.selection.leaderboard import Standing
from league.state.config import LeagueConfig
from league.state.records import ROLES, STUDENT, TEACHER, Replacement

COHORTS = 10
"""At most so many generations a side."""
EVOLVED = 16
"""At most so many members a side enter alpha-rank."""
NO_MATCH = "no match has been played yet"
_GAMES = ("interaction", "nash", "alpha_rank", "diversity")
_ANALYSES = ("drift", "calibration", "generations", "survival", *_GAMES)


@dataclass(frozen=True)
class Grid(PlainData):
    """Teachers against students, best first."""

    teachers: tuple[str, ...]
    students: tuple[str, ...]
    solve_rate: Cells
    """Right rollouts on valid tasks, shape [teachers, students], None where two never met."""
    tasks: tuple[tuple[int, ...], ...]
    """How many tasks each cell rests on."""


@dataclass(frozen=True)
class Gathered:
    """One league at one time."""

    name: str
    """Of its directory, after the folder above where it is just called league."""
    config: LeagueConfig
    history: History
    boards: dict[str, tuple[Standing, ...]]
    """By role, best first."""
    ranks: dict[str, RankInterval]
    """By living member."""
    grid: Grid
    """Among the best `top` of each role."""
    drift: Drift
    calibration: Calibration
    generations: Generations
    survival: Survival
    replacements: tuple[Replacement, ...]
    interaction: Interaction | None
    nash: Nash | None
    alpha_rank: AlphaRank | None
    diversity: Diversity | None
    missing: dict[str, str]
    """Why an analysis that is None could not be made."""
    top: int
    since: int

    @property
    def rounds(self) -> int:
        """How many rounds have been paired."""
        return self.history.rounds

    @property
    def unplayed(self) -> set[str]:
        """Living members without a match; what is said of them rests on their ratings alone."""
        return {row.member for rows in self.boards.values() for row in rows if not row.matches}

    @property
    def anchors(self) -> list[Life]:
        """The frozen members of both roles."""
        return [life for life in self.history.lives if life.anchor]

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict of everything but the rating curves of single members."""
        found = {name: getattr(self, name) for name in _ANALYSES}
        return {
            "name": self.name,
            "rounds": self.rounds,
            "matches": len(self.history.matches),
            "board": ranked_boards(self.boards, self.ranks),
            "matrix": self.grid.to_dict(),
            **{name: made.to_dict() if made else None for name, made in found.items()},
            "missing": self.missing,
            "top": self.top,
            "since": self.since,
        }


def ranked_boards(
    boards: Mapping[str, Sequence[Standing]], ranks: Mapping[str, RankInterval]
) -> dict[str, list[dict[str, Any]]]:
    """Return leaderboards by role as plain dicts, each row with its rank interval."""
    return {
        role: [row.to_dict() | {"ranks": ranks[row.member].to_dict()} for row in rows]
        for role, rows in boards.items()
    }


def board_ranks(boards: Iterable[Sequence[Standing]], *, seed: int = 0) -> dict[str, RankInterval]:
    """Return the rank interval of each member of some leaderboards, one for each role.

    A large role gets fewer draws, at least 200.
    """
    ranks: dict[str, RankInterval] = {}
    for board in boards:
        ratings = {row.member: Rating(row.mu, row.sigma) for row in board}
        draws = min(2000, max(200, 1_000_000 // len(ratings)))
        ranks |= rank_intervals(ratings, seed=seed, draws=draws)
    return ranks


def gather(league: League, *, top: int = 32, since: int = 0) -> Gathered:
    """Return all that a report of an open league shows.

    top: how many members of each role enter matrix, interaction, Nash and diversity. since: leave
    out earlier rounds in calibration, interaction, Nash and diversity. Raises LeagueError on bad
    numbers; what cannot be known yet is None, with the reason in `missing`.
    """
    past = history(league)
    boards = {role: tuple(league.leaderboard(role)) for role in ROLES}
    ranks = board_ranks(boards.values(), seed=league.config.seed)
    calibrated = calibration(past, since=since)
    missing: dict[str, str] = {}
    crossed = solved = evolved = diverse = None
    if not calibrated.matches:
        why = NO_MATCH if not past.matches else f"no match counted from round {since} on"
        missing = dict.fromkeys(_GAMES, why)
    else:
        full = game(past, fill=FILL, top=top, since=since)
        solved = nash(full)
        evolved = alpha_rank(game(past, fill=FILL, top=min(top, EVOLVED), since=since))
        diverse = diversity(full, seed=league.config.seed)
        try:
            # Where few have met, each draw is slow and cannot say much.
            draws = 399 if full.filled <= 0.5 else 99
            crossed = interaction(past, top=top, since=since, seed=league.config.seed, draws=draws)
        except LeagueError as error:
            missing["interaction"] = str(error)
    return Gathered(
        name=_name(league),
        config=league.config,
        history=past,
        boards=boards,
        ranks=ranks,
        grid=_grid(league, boards, top),
        drift=drift(past),
        calibration=calibrated,
        generations=generations(past, cohorts=COHORTS),
        survival=survival(past),
        replacements=league.replacements(),
        interaction=crossed,
        nash=solved,
        alpha_rank=evolved,
        diversity=diverse,
        missing=missing,
        top=top,
        since=since,
    )


def _name(league: League) -> str:
    path = league.directory.resolve()
    name = f"{path.parent.name}/league" if path.name == "league" else path.name
    return name.encode(errors="replace").decode()


def _grid(league: League, boards: dict[str, tuple[Standing, ...]], top: int) -> Grid:
    whole_number("top", top, 1)
    teachers, students = ([row.member for row in boards[r][:top]] for r in (TEACHER, STUDENT))
    cells = [[league.state.meeting(t, s) for s in students] for t in teachers]
    return Grid(
        teachers=tuple(teachers),
        students=tuple(students),
        solve_rate=tuple(tuple(m.solve_rate for m in row) for row in cells),
        tasks=tuple(tuple(m.tasks for m in row) for row in cells),
    )
