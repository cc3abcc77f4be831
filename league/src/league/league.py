"""The league: two populations, who plays whom, who stands where, who is replaced."""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from league import store
from league.config import LeagueConfig
from league.errors import ConflictingResult, LeagueError, UnreadableLeague
from league.expectation import expected_scores
from league.files import write_atomically
from league.lock import WriterLock
from league.matching import propose
from league.member import ROLES, STUDENT, TEACHER, check_name
from league.outcome import Outcome
from league.payoff import Payoff, payoff
from league.rating import Rating
from league.standing import Standing, leaderboard, weakest
from league.state import Pair, Replacement, State

_OPERATOR = re.compile(r"[ -~]{1,200}")


class League:
    """A league in a directory; a context manager.

    With `teachers` and `students` it is founded there, without them the existing one is opened.
    One writer at a time (LeagueLocked otherwise); `read_only=True` opens beside a writer and
    sees the state as of now. What happened is in the log before a method returns; a killed
    process loses at most the event it was writing.

    Raises LeagueError on anything refused, with files and state as they were.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        teachers: Sequence[str] | None = None,
        students: Sequence[str] | None = None,
        config: LeagueConfig | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self._lock: WriterLock | None = None
        names: tuple[list[str], list[str]] | None = None
        exists = (self.directory / store.SETTINGS).exists()
        if teachers is None and students is None:
            if not exists:
                raise UnreadableLeague(
                    f"no league in {self.directory}; give teachers and students to found one"
                )
        elif exists or read_only:
            raise LeagueError(
                f"{self.directory} already holds a league; open it without names"
                if exists
                else "a league cannot be founded read-only"
            )
        else:
            names = _population(teachers or (), students or ())
        try:
            if names:
                self.directory.mkdir(parents=True, exist_ok=True)
            if not read_only:
                self._lock = WriterLock(self.directory / store.LOCK)
            if names:
                if (self.directory / store.SETTINGS).exists():
                    raise LeagueError(f"{self.directory} has just become a league")
                store.found(self.directory, config or LeagueConfig(), *names)
            self._store = store.Store(self.directory, writable=not read_only)
            if config is not None and config != self.config:
                self._store.journal.close()
                raise LeagueError(
                    f"{self.directory} was founded with other settings: "
                    f"{_difference(config, self.config)}; open it without a config"
                )
        except OSError as error:
            self._release()
            raise LeagueError(f"cannot use {self.directory}: {error}") from error
        except BaseException:
            self._release()
            raise

    # What is known -----------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state; read it, and change it only through this class."""
        return self._store.state

    @property
    def config(self) -> LeagueConfig:
        """The settings it was founded with."""
        return self.state.config

    @property
    def warnings(self) -> tuple[str, ...]:
        """What had to be repaired or could not be written, one sentence each."""
        return tuple(self._store.warnings)

    def members(self, role: str) -> list[str]:
        """The living members of "teacher" or "student", by slot."""
        return [member.name for member in self.state.living(role)]

    def rating(self, member: str) -> Rating:
        """The rating of a member, alive or replaced."""
        return self.state.member(member).rating

    def leaderboard(self, role: str) -> list[Standing]:
        """The living members of a role, best first by `config.fitness`."""
        return leaderboard(self.state, role)

    def select(self, role: str, n: int) -> list[str]:
        """The n weakest by `config.fitness`, weakest first; fewer when newborns are spared."""
        return weakest(self.state, role, n)

    def payoff(self) -> Payoff:
        """Observed and blended solve rates of all living pairs; None where they never met."""
        return payoff(self.state)

    def predict(self, teacher: str, student: str) -> float:
        """The student's expected share of the teacher's tasks, by rating and common history."""
        members = [self.state.member(teacher), self.state.member(student)]
        for member, role in zip(members, ROLES, strict=True):
            if member.role != role:
                raise LeagueError(f"{member.name} is a {member.role}; expected a {role}")
        return float(expected_scores(self.state, members[:1], members[1:])[0, 0])

    def replacements(self) -> tuple[Replacement, ...]:
        """All replacements so far, oldest first, each with the offset it gave its role's mean."""
        return tuple(self.state.replacements)

    # What happens ------------------------------------------------------------------------------

    def pair(self, round: int) -> list[Pair]:
        """Return the matches of a round, by teacher's slot.

        The first call draws them from (seed, round) and the state, and logs them; later calls
        return the same pairs, whatever has happened since.
        """
        if isinstance(round, bool) or not isinstance(round, int) or round < 0:
            raise LeagueError(f"round is {round!r}; expected a whole number >= 0")
        if round not in self.state.rounds:
            pairs = []
            for pair in propose(self.state, round):
                entry = asdict(pair)
                del entry["round"]
                pairs.append(entry)
            self._store.commit({"event": "round_paired", "round": round, "pairs": pairs})
        return [self.state.pairs[pair_id] for pair_id in self.state.rounds[round]]

    def record(self, pair: Pair, outcome: Outcome) -> None:
        """Log the outcome of a pair and update both ratings.

        Again with the same numbers it does nothing; with others it raises ConflictingResult. The
        results of one round may come in any order: the ratings after them are equal to the bit.
        """
        if self.state.pairs.get(pair.id) != pair:
            raise LeagueError(f"{pair} is not a pair of this league; take pairs from pair(round)")
        known = self.state.outcomes.get(pair.id)
        if known == outcome:
            return
        if known is not None:
            raise ConflictingResult(
                f"pair {pair.id} is already recorded as {known}, and now came as {outcome}"
            )
        event = {"event": "match_recorded", "pair": pair.id, "outcome": asdict(outcome)}
        self._store.commit(event)

    def replace(
        self,
        member: str,
        child: str,
        parents: Sequence[str],
        operator: str,
        reason: str = "",
        weights: Sequence[float] | None = None,
    ) -> None:
        """Retire a member and give its slot to a child of the parents.

        Names are never used again. parents: of the same role, alive or retired. weights: how much
        the child is like each of them (equal if not given; scaled to sum to 1).
        """
        old = self.state.member(member)
        if not old.alive:
            raise LeagueError(f"{member} has already been replaced")
        if check_name(child) in self.state.members:
            raise LeagueError(f"the name {child!r} has been used; expected a new one")
        if isinstance(parents, str) or not parents:
            raise LeagueError(f"parents are {parents!r}; expected a list of one name or more")
        for parent in parents:
            if self.state.member(parent).role != old.role:
                raise LeagueError(f"{parent} is no {old.role}; a child has its parents' role")
        for name, text in (("operator", operator), ("reason", reason or "-")):
            if not isinstance(text, str) or not _OPERATOR.fullmatch(text):
                raise LeagueError(f"{name} is {text!r}; expected 1 to 200 printable characters")
        self._store.commit(
            {
                "event": "member_replaced",
                "member": member,
                "child": child,
                "parents": list(parents),
                "weights": _shares(weights, len(parents)),
                "operator": operator,
                "reason": reason,
            }
        )

    # Files -------------------------------------------------------------------------------------

    @property
    def byte_length(self) -> int:
        """Length in bytes of the log that makes up the state."""
        return self._store.journal.byte_length

    def copy_to(self, directory: str | os.PathLike[str]) -> None:
        """Write the three files of this moment into another directory, which becomes a league."""
        target = Path(directory)
        try:
            self._store.journal.sync()
            target.mkdir(parents=True, exist_ok=True)
            for name in (store.EVENTS, store.SNAPSHOT, store.SETTINGS):
                content = (self.directory / name).read_bytes()
                whole = content[: self.byte_length] if name == store.EVENTS else content
                write_atomically(target / name, whole)
        except OSError as error:
            raise LeagueError(f"cannot copy the league to {target}: {error}") from error

    def close(self) -> None:
        """Sync the log and let the next writer in; harmless when called again."""
        self._store.journal.close()
        self._release()

    def __enter__(self) -> "League":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def _population(teachers: Sequence[str], students: Sequence[str]) -> tuple[list[str], list[str]]:
    for role, names in ((TEACHER, teachers), (STUDENT, students)):
        if isinstance(names, str) or not names:
            raise LeagueError(f"{role}s are {names!r}; expected a list of at least one name")
    everyone = [check_name(name) for name in (*teachers, *students)]
    twice = sorted({name for name in everyone if everyone.count(name) > 1})
    if twice:
        raise LeagueError(f"names occur twice: {', '.join(twice)}; expected one name per member")
    return list(teachers), list(students)


def _difference(given: LeagueConfig, found: LeagueConfig) -> str:
    new, old = given.to_json(), found.to_json()
    return ", ".join(f"{key} {old[key]} not {new[key]}" for key in old if old[key] != new[key])


def _shares(weights: Sequence[float] | None, count: int) -> list[float]:
    values = [1.0] * count if weights is None else [float(w) for w in weights]
    total = sum(values)
    if len(values) != count or not all(w >= 0.0 for w in values) or not 0.0 < total < float("inf"):
        raise LeagueError(f"weights are {weights!r}; expected {count} numbers >= 0, not all 0")
    return [w / total for w in values]
