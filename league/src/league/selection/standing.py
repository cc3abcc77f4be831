"""The leaderboard: who stands where."""

from dataclasses import dataclass

from league.plain_data import PlainData
from league.rating.rating import conservative
from league.selection.fitness import ranked
from league.state.member import Member
from league.state.state import State


@dataclass(frozen=True)
class Standing(PlainData):
    """One row of a leaderboard; rates are None where nothing was played."""

    member: str
    role: str
    slot: int
    mu: float
    sigma: float
    conservative: float
    """mu - 3 sigma (TrueSkill's `expose`)."""
    matches: int
    mean_solve_rate: float | None
    """Right rollouts on valid tasks."""
    valid_rate: float | None
    """Valid of all tasks."""
    unsolved_rate: float | None
    """Unsolved of the attempted valid tasks."""
    mean_reward: float | None
    """Per task for a teacher, the solve rate for a student."""
    age: int
    """Rounds since it came."""
    parents: tuple[str, ...]
    operator: str
    fitness: float | None
    """What the row is ranked by."""
    void: int = 0
    """Tasks lost by our own fault, in none of the rates."""


def leaderboard(state: State, role: str) -> list[Standing]:
    """Return the living members of a role, best first; equals in random order."""
    members, values = ranked(state, role)
    return [_standing(state, member, values[member.name]) for member in members]


def _standing(state: State, member: Member, fitness: float | None) -> Standing:
    return Standing(
        member=member.name,
        role=member.role,
        slot=member.slot,
        mu=member.rating.mu,
        sigma=member.rating.sigma,
        conservative=conservative(member.rating, state.config.model),
        matches=member.matches,
        mean_solve_rate=member.solved / member.attempts if member.attempts else None,
        valid_rate=member.valid / member.tasks if member.tasks else None,
        unsolved_rate=member.unsolved / member.tried if member.tried else None,
        mean_reward=member.mean_reward,
        age=len(state.rounds) - member.born,
        parents=member.parents,
        operator=member.operator,
        fitness=fitness,
        void=member.void,
    )
