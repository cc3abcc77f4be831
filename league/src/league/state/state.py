"""What a league knows after its events so far."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from league.basics.errors import LeagueError, UnknownMember
from league.rating.rating import Rating
from league.state.config import LeagueConfig
from league.state.records import (
    ROLES,
    Anchor,
    Meeting,
    Member,
    Outcome,
    Pair,
    Replacement,
    check_role,
    outcome_row,
)

_PAIR = attrgetter("id", "teacher", "student", "predicted")
_NEVER = Meeting()
_MEETING = attrgetter(*Meeting.__slots__)
_REPLACEMENT = attrgetter(*Replacement.__slots__)
_ANCHOR = attrgetter(*Anchor.__slots__)


@dataclass
class State:
    """The fold of all events; the one thing here that changes in place (see `fold.apply`)."""

    config: LeagueConfig
    members: dict[str, Member] = field(default_factory=dict)
    """By name, in order of arrival, anchors among them."""
    slots: dict[str, list[str]] = field(default_factory=dict)
    """The names of the living, by role and slot."""
    pairs: dict[str, Pair] = field(default_factory=dict)
    """By id."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By pair id."""
    rounds: dict[int, list[str]] = field(default_factory=dict)
    """The pair ids of each round, in pairing order."""
    whole_rounds: int = 0
    """How many of the rounds gave everybody a turn."""
    meetings: dict[tuple[str, str], Meeting] = field(default_factory=dict)
    """By (teacher, student)."""
    replacements: list[Replacement] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    open_round: int = -1
    """The round being recorded, -1 before the first result."""
    open_pairs: dict[str, set[str]] = field(default_factory=dict)
    """The recorded pairs of the open round, by member."""
    before: dict[str, Rating] = field(default_factory=dict)
    """What members were rated before the open round, so that its results may arrive in any
    order."""
    events: int = 0
    """How many events have been applied."""

    def living(self, role: str) -> list[Member]:
        """The living members of a role, by slot."""
        return [self.members[name] for name in self.slots.get(check_role(role), ())]

    def member(self, name: str) -> Member:
        """The member of that name, alive or not; UnknownMember if there never was one."""
        if name not in self.members:
            alive = [name for names in self.slots.values() for name in names]
            shown = ", ".join(alive[:20]) + (" and more" if len(alive) > 20 else "")
            raise UnknownMember(f"no member is named {name!r}; alive are {shown}")
        return self.members[name]

    def meeting(self, teacher: str, student: str) -> Meeting:
        """What two members have played against each other; an empty one if nothing."""
        return self.meetings.get((teacher, student), _NEVER)

    def sections(self) -> Iterator[tuple[str, Any]]:
        """Yield name and content of the parts of `to_dict`; long ones as iterators of their rows.

        Rows are in the order of the fields of `Pair` (without its round, with those of its
        `Outcome` if it has one), `Meeting`, `Replacement` and `Anchor`.
        """
        yield "members", (m.to_dict() for m in self.members.values())
        yield "rounds", ([r, [self._played(i) for i in ids]] for r, ids in self.rounds.items())
        yield "whole_rounds", self.whole_rounds
        yield "meetings", ([*key, *_MEETING(self.meetings[key])] for key in sorted(self.meetings))
        yield "replacements", (_REPLACEMENT(r) for r in self.replacements)
        yield "anchors", (_ANCHOR(a) for a in self.anchors)
        yield "open_round", self.open_round
        yield "open_pairs", sorted(set().union(*self.open_pairs.values()))
        before = ((name, self.before[name]) for name in sorted(self.before))
        yield "before", ([name, rating.mu, rating.sigma] for name, rating in before)
        yield "events", self.events

    def to_dict(self) -> dict[str, Any]:
        """Return a plain, canonical dict: equal states give equal dicts."""
        return {
            name: list(part) if isinstance(part, Iterator) else part
            for name, part in self.sections()
        }

    def _played(self, pair_id: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = _PAIR(self.pairs[pair_id])
        outcome = self.outcomes.get(pair_id)
        return row if outcome is None else row + outcome_row(outcome)

    @classmethod
    def from_dict(cls, config: LeagueConfig, data: Mapping[str, Any]) -> "State":
        """Return the state of a plain dict; LeagueError if the dict is not one of ours.

        The rows in the dict are used up, so that a large state is not in memory twice.
        """
        state = cls(config)
        try:
            state._read(data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise LeagueError(f"not a league state: {error!r}") from error
        return state

    def _read(self, data: Mapping[str, Any]) -> None:
        for plain in data["members"]:
            self.members[plain["name"]] = Member.from_dict(plain)
        self.whole_rounds, self.open_round = data["whole_rounds"], data["open_round"]
        for member, child, parents, weights, *rest in data["replacements"]:
            self.replacements.append(
                Replacement(member, child, tuple(parents), tuple(weights), *rest)
            )
        self.anchors = [Anchor(*row) for row in data["anchors"]]
        self.before = {name: Rating(mu, sigma) for name, mu, sigma in data["before"]}
        self.events = data["events"]
        for number, rows in data["rounds"]:
            self.rounds[number] = [row[0] for row in rows]
            for pair_id, teacher, student, predicted, *numbers in rows:
                self.add_pair(pair_id, number, teacher, student, predicted)
                if numbers:
                    self.outcomes[pair_id] = Outcome(*numbers)
            rows.clear()
        for row in data["meetings"]:
            teacher, student, *counts = row
            key = (self.members[teacher].name, self.members[student].name)
            self.meetings[key] = Meeting(*counts)
            row.clear()
        for role in ROLES:
            living = [m for m in self.members.values() if m.alive and m.role == role]
            self.slots[role] = [m.name for m in sorted(living, key=lambda m: m.slot)]
        for pair_id in data["open_pairs"]:
            pair = self.pairs[pair_id]
            for name in (pair.teacher, pair.student):
                if not self.members[name].anchor:
                    self.open_pairs.setdefault(name, set()).add(pair_id)

    def add_pair(
        self, pair_id: str, number: int, teacher: str, student: str, predicted: float
    ) -> Pair:
        """Add a pair and return it; its names are the members' own strings, which saves memory."""
        names = (self.members[teacher].name, self.members[student].name)
        pair = self.pairs[pair_id] = Pair(pair_id, number, *names, predicted)
        return pair
