"""State of a league: what is known after its events so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from league.config import LeagueConfig
from league.errors import LeagueError, UnknownMember
from league.ratings import Rating
from league.records import (
    MEMBER,
    STUDENT,
    TEACHER,
    Anchor,
    Meeting,
    Member,
    Outcome,
    Pair,
    Replacement,
    outcome_row,
)

_PAIR = attrgetter("id", "teacher", "student", "predicted")
_NEVER = Meeting()
_MEETING = attrgetter(*Meeting.__slots__)
_REPLACEMENT = attrgetter(*Replacement.__slots__)
_ANCHOR = attrgetter(*Anchor.__slots__)


@dataclass
class State:
    """The fold of all events; it changes in place, by `events.apply` alone."""

    config: LeagueConfig
    members: dict[str, Member] = field(default_factory=dict)
    """By name, in order of arrival, anchors among them."""
    slots: dict[str, list[str]] = field(default_factory=dict)
    """The names of the living, by role and slot; its roles are teacher and student, or member."""
    pairs: dict[str, Pair] = field(default_factory=dict)
    """By id."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By pair id."""
    rounds: dict[int, list[str]] = field(default_factory=dict)
    """The pair ids of each round, in pairing order."""
    whole_rounds: int = 0
    """How many of the rounds were whole."""
    meetings: dict[tuple[str, str], Meeting] = field(default_factory=dict)
    """By (teacher, student)."""
    replacements: list[Replacement] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    open_round: int = -1
    """The round being recorded, -1 before the first result."""
    open_pairs: dict[str, set[str]] = field(default_factory=dict)
    """The recorded pairs of the open round, by member."""
    before: dict[str, Rating] = field(default_factory=dict)
    """Ratings before the open round, so that its results may arrive in any order."""
    events: int = 0
    """How many events have been applied."""

    def check_role(self, role: str) -> str:
        """Return the role if this league has it; raise LeagueError otherwise."""
        if role not in self.slots:
            known = " or ".join(map(repr, self.slots))
            raise LeagueError(f"role is {role!r}; expected {known}")
        return role

    def living(self, role: str) -> list[Member]:
        """Return the living members of a role, by slot."""
        return [self.members[name] for name in self.slots[self.check_role(role)]]

    @property
    def one_population(self) -> bool:
        """Whether members play members of the same population."""
        return MEMBER in self.slots

    def sides(self) -> tuple[list[Member], list[Member]]:
        """Return who can be teacher and who can be student; the same in one population."""
        roles = (MEMBER, MEMBER) if self.one_population else (TEACHER, STUDENT)
        return self.living(roles[0]), self.living(roles[1])

    def member(self, name: str) -> Member:
        """Return the member of that name, alive or not; UnknownMember if there never was one."""
        if name not in self.members:
            alive = [name for names in self.slots.values() for name in names]
            shown = ", ".join(alive[:20]) + (" and more" if len(alive) > 20 else "")
            raise UnknownMember(f"no member is named {name!r}; alive are {shown}")
        return self.members[name]

    def meeting(self, teacher: str, student: str) -> Meeting:
        """Return what two members have played against each other; an empty one if nothing."""
        return self.meetings.get((teacher, student), _NEVER)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain, canonical dict: equal states give equal dicts.

        Rows are in the order of the fields of `Pair` (without its round, with those of its
        `Outcome` if it has one), `Meeting`, `Replacement` and `Anchor`.
        """
        before = [(name, self.before[name]) for name in sorted(self.before)]
        return {
            "members": [m.to_dict() for m in self.members.values()],
            "rounds": [[r, [self._played(i) for i in ids]] for r, ids in self.rounds.items()],
            "whole_rounds": self.whole_rounds,
            "meetings": [[*key, *_MEETING(self.meetings[key])] for key in sorted(self.meetings)],
            "replacements": [_REPLACEMENT(r) for r in self.replacements],
            "anchors": [_ANCHOR(a) for a in self.anchors],
            "open_round": self.open_round,
            "open_pairs": sorted(set().union(*self.open_pairs.values())),
            "before": [[name, rating.mu, rating.sigma] for name, rating in before],
            "events": self.events,
        }

    def _played(self, pair_id: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = _PAIR(self.pairs[pair_id])
        outcome = self.outcomes.get(pair_id)
        return row if outcome is None else row + outcome_row(outcome)

    @classmethod
    def from_dict(cls, config: LeagueConfig, data: Mapping[str, Any]) -> "State":
        """Return the state of such a dict."""
        state = cls(config)
        state._read(data)
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
        for teacher, student, *counts in data["meetings"]:
            key = (self.members[teacher].name, self.members[student].name)
            self.meetings[key] = Meeting(*counts)
        for role in dict.fromkeys(m.role for m in self.members.values()):
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
