"""What a league knows after its events so far."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from league.config import LeagueConfig
from league.errors import LeagueError, UnknownMember
from league.member import Member, check_role
from league.outcome import Outcome
from league.rating import Rating


@dataclass(frozen=True)
class Pair:
    """One match to be played. predicted: the student's expected share of the tasks."""

    id: str
    round: int
    teacher: str
    student: str
    predicted: float


@dataclass(frozen=True)
class Meeting:
    """All matches of one teacher with one student.

    past_tasks and past_won are counted tasks and the student's share of them, fading with every
    new match; the other counts are plain sums.
    """

    matches: int = 0
    tasks: int = 0
    valid: int = 0
    attempts: int = 0
    solved: int = 0
    past_tasks: float = 0.0
    past_won: float = 0.0
    last_round: int = -1


@dataclass(frozen=True)
class Replacement:
    """One member's end and its child's beginning.

    offset: how much the mean mu of the role moved. That is a change of the zero point, not
    progress; subtract it before comparing ratings across generations.
    """

    member: str
    child: str
    parents: tuple[str, ...]
    weights: tuple[float, ...]
    operator: str
    reason: str
    rounds: int
    offset: float


@dataclass
class State:
    """The fold of all events; the one thing here that changes in place (see `fold.apply`).

    members: by name, in order of arrival. pairs: by id. outcomes: by pair id. rounds: the pair
    ids of each round, in pairing order. meetings: by (teacher, student). open_round and the two
    fields after it are the round being recorded: its recorded pairs, and what its members were
    rated before it, so that results may arrive in any order.
    """

    config: LeagueConfig
    members: dict[str, Member] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    rounds: dict[int, list[str]] = field(default_factory=dict)
    meetings: dict[tuple[str, str], Meeting] = field(default_factory=dict)
    replacements: list[Replacement] = field(default_factory=list)
    open_round: int = -1
    open_pairs: dict[str, set[str]] = field(default_factory=dict)
    before: dict[str, Rating] = field(default_factory=dict)
    events: int = 0

    def living(self, role: str) -> list[Member]:
        """The living members of a role, by slot."""
        check_role(role)
        found = [m for m in self.members.values() if m.alive and m.role == role]
        return sorted(found, key=lambda m: m.slot)

    def member(self, name: str) -> Member:
        """The member of that name, alive or not; UnknownMember if there never was one."""
        if name not in self.members:
            alive = ", ".join(m.name for m in self.members.values() if m.alive)
            raise UnknownMember(f"no member is named {name!r}; alive are {alive}")
        return self.members[name]

    def to_json(self) -> dict[str, Any]:
        """Return a plain, canonical dict: equal states give equal dicts."""
        return {
            "members": [m.to_json() for m in self.members.values()],
            "rounds": [[r, [asdict(self.pairs[i]) for i in ids]] for r, ids in self.rounds.items()],
            "outcomes": {i: asdict(self.outcomes[i]) for i in sorted(self.outcomes)},
            "meetings": [[t, s, asdict(m)] for (t, s), m in sorted(self.meetings.items())],
            "replacements": [asdict(r) for r in self.replacements],
            "open_round": self.open_round,
            "open_pairs": sorted(set().union(*self.open_pairs.values())),
            "before": {name: asdict(self.before[name]) for name in sorted(self.before)},
            "events": self.events,
        }

    @classmethod
    def from_json(cls, config: LeagueConfig, data: Mapping[str, Any]) -> "State":
        """Return the state of a plain dict; LeagueError if the dict is not one of ours."""
        try:
            return cls._read(config, data)
        except (KeyError, TypeError, ValueError) as error:
            raise LeagueError(f"not a league state: {error!r}") from error

    @classmethod
    def _read(cls, config: LeagueConfig, data: Mapping[str, Any]) -> "State":
        state = cls._columns(config, data)
        for pair_id in data["open_pairs"]:
            pair = state.pairs[pair_id]
            for name in (pair.teacher, pair.student):
                state.open_pairs.setdefault(name, set()).add(pair_id)
        return state

    @classmethod
    def _columns(cls, config: LeagueConfig, data: Mapping[str, Any]) -> "State":
        rounds = {int(r): [Pair(**pair) for pair in pairs] for r, pairs in data["rounds"]}
        return cls(
            config=config,
            members={m["name"]: Member.from_json(m) for m in data["members"]},
            pairs={pair.id: pair for pairs in rounds.values() for pair in pairs},
            outcomes={i: Outcome(**o) for i, o in data["outcomes"].items()},
            rounds={r: [pair.id for pair in pairs] for r, pairs in rounds.items()},
            meetings={(t, s): Meeting(**m) for t, s, m in data["meetings"]},
            replacements=[
                Replacement(
                    **(r | {"parents": tuple(r["parents"]), "weights": tuple(r["weights"])})
                )
                for r in data["replacements"]
            ],
            open_round=data["open_round"],
            before={name: Rating(**r) for name, r in data["before"].items()},
            events=data["events"],
        )
