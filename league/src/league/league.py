"""A league in a directory: pairing, results, leaderboard and replacement.

Each request is checked here, against the state, and becomes an event of the log.
"""

import contextlib
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from league.config import LeagueConfig
from league.errors import ConflictingResult, LeagueError, check_whole
from league.events import round_event
from league.ratings import Rating
from league.selection import Payoff, Standing, leaderboard, payoff, select
from league.state import MEMBER, STUDENT, TEACHER, Outcome, Pair, Replacement, State
from league.store import SETTINGS, Store, write_new_league, writer_lock

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


class League(contextlib.AbstractContextManager["League"]):
    """A league in a directory; a context manager.

    With `teachers` and `students`, or with `members` for one population whose members play each
    other, it is created; without names the existing one is opened. There is one writer at a time,
    others get LeagueLocked; `read_only=True` opens it while another process writes, and shows the
    present state. Events are in the log before a method returns; a killed process loses at most the
    event that it was writing.

    Threads may share a league: its methods run one at a time, under a lock, which does not protect
    `state`. Other processes need their own `read_only` league, and a forked child must not use its
    parent's.

    Roles are "teacher" and "student", or "member" in one population. A method that raises
    LeagueError leaves files and state unchanged.

        >>> with League("run/league", teachers=["t0", "t1"], students=["s0", "s1"]) as league:
        ...     for pair in league.pair(round=0):
        ...         league.record(pair, Outcome(8, valid=8, attempts=64, solved=16, unsolved=2))
        ...     weakest = league.select("student", 1)[0]
        ...     league.replace(weakest, child="s2", parents=["s0"], operator="mutate")
        >>> League("run/league", read_only=True).members("teacher")
        ['t0', 't1']
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        teachers: Sequence[str] | None = None,
        students: Sequence[str] | None = None,
        config: LeagueConfig | None = None,
        *,
        members: Sequence[str] | None = None,
        read_only: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self._mutex = threading.RLock()
        names = {TEACHER: teachers, STUDENT: students, MEMBER: members}
        populations = {role: group for role, group in names.items() if group is not None}
        if not populations and not (self.directory / SETTINGS).exists():
            raise LeagueError(
                f"no league in {self.directory}; give teachers and students, or members, to create "
                "one"
            )
        if populations and read_only:
            raise LeagueError("a league cannot be created read-only")
        founding = _founding(populations) if populations else None
        try:
            with contextlib.ExitStack() as opened:
                if founding:
                    self.directory.mkdir(parents=True, exist_ok=True)
                warnings = [] if read_only else opened.enter_context(writer_lock(self.directory))
                if founding:
                    if (self.directory / SETTINGS).exists():
                        raise LeagueError(
                            f"{self.directory} already holds a league; open it without names, or "
                            "begin a new one in another directory"
                        )
                    write_new_league(self.directory, config or LeagueConfig(), founding)
                self._store = Store(self.directory, writable=not read_only)
                opened.callback(self._store.close)
                self._store.warnings += warnings
                if config is not None and config != self.config:
                    raise LeagueError(
                        f"{self.directory} was created with other settings: "
                        f"{config.difference(self.config)}; open it without a config"
                    )
                self._opened = opened.pop_all()
        except OSError as error:
            raise LeagueError(f"cannot use {self.directory}: {error}") from error

    def __repr__(self) -> str:
        living = ", ".join(f"{len(names)} {role}s" for role, names in self.state.slots.items())
        return f"League({str(self.directory)!r}, {living}, {len(self.state.rounds)} rounds paired)"

    @property
    def state(self) -> State:
        """The state; read it, and change it only through this class."""
        return self._store.state

    @property
    def config(self) -> LeagueConfig:
        return self.state.config

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each repair of the files, and one if they cannot be locked."""
        return tuple(self._store.warnings)

    def members(self, role: str) -> list[str]:
        """Return the names of the living members of a role, by slot."""
        with self._mutex:
            return [member.name for member in self.state.living(role)]

    def rating(self, member: str) -> Rating:
        """Return the rating of a member, alive or replaced."""
        with self._mutex:
            return self.state.member(member).rating

    def leaderboard(self, role: str) -> list[Standing]:
        """Return the living members of a role, best first by `config.fitness`."""
        with self._mutex:
            return leaderboard(self.state, role)

    def select(self, role: str, n: int) -> list[str]:
        """Return the n weakest by `config.fitness`; fewer if children are still spared, and never a
        whole role."""
        with self._mutex:
            return select(self.state, role, n)

    def payoff(self, top: int | None = None) -> Payoff:
        """Return solve rates of all living pairs, or of the `top` best members a side."""
        with self._mutex:
            return payoff(self.state, top)

    def replacements(self) -> tuple[Replacement, ...]:
        """Return all replacements, oldest first."""
        with self._mutex:
            return tuple(self.state.replacements)

    def pair(self, round: int) -> list[Pair]:
        """Return the matches of a round, by teacher's slot.

        The first call draws them from (seed, round) and the state, and logs them; later calls
        return the same pairs. Each member of the larger side plays once (`league.pairing`).
        """
        check_whole("round", round)
        with self._mutex:
            if round not in self.state.rounds:
                self._store.commit(round_event(self.state, round))
            return [self.state.pairs[pair_id] for pair_id in self.state.rounds[round]]

    def record(self, pair: Pair, outcome: Outcome) -> None:
        """Log the outcome of a pair and update both ratings.

        The same outcome again does nothing; another one raises ConflictingResult. Ratings depend on
        the order in which results are recorded.
        """
        with self._mutex:
            if self.state.pairs.get(pair.id) != pair:
                raise LeagueError(
                    f"{pair} is not a pair of this league; take pairs from pair(round)"
                )
            earlier = self.state.outcomes.get(pair.id)
            if earlier is None:
                event = {"event": "match_recorded", "pair": pair.id, "outcome": asdict(outcome)}
                self._store.commit(event)
            elif earlier != outcome:
                raise ConflictingResult(
                    f"pair {pair.id} is already recorded as {earlier}, and now came as {outcome}"
                )

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

        The child's name must be new. parents: of the same role, alive or retired. weights: how much
        the child is like each parent (default: equal; scaled to sum to 1). A role's only member
        cannot be replaced.
        """
        with self._mutex:
            old, slots = self.state.member(member), self.state.slots
            if not old.alive:
                raise LeagueError(f"{member} has already been replaced")
            if len(slots[old.role]) == 1:
                raise LeagueError(
                    f"{member} is the only {old.role}; expected at least two {old.role}s"
                )
            if _checked_name(child) in self.state.members:
                raise LeagueError(f"the name {child!r} has been used; expected a new one")
            if isinstance(parents, str) or not parents:
                raise LeagueError(f"parents are {parents!r}; expected a list of one name or more")
            for parent in parents:
                if self.state.member(parent).role != old.role:
                    raise LeagueError(f"{parent} is no {old.role}; a child has its parents' role")
            names = {"member": member, "child": child, "parents": list(parents)}
            how = {"operator": operator, "reason": reason}
            event = {**names, "weights": _shares(weights, len(parents)), **how}
            self._store.commit({"event": "member_replaced", **event})

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place of each event in the log, and the event."""
        return self._store.events()

    def copy_to(self, directory: str | os.PathLike[str]) -> None:
        """Write the league as it is now into another directory."""
        target = Path(directory)
        try:
            with self._mutex:
                self._store.copy_to(target)
        except OSError as error:
            raise LeagueError(f"cannot copy the league to {target}: {error}") from error

    def close(self) -> None:
        """Sync the log and release the lock; harmless when called again."""
        with self._mutex:
            self._opened.close()

    def __exit__(self, *_error: object) -> None:
        self.close()


def _founding(populations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the event that creates a league with these names by role."""
    if set(populations) not in ({TEACHER, STUDENT}, {MEMBER}):
        raise LeagueError("expected teachers and students, or members alone")
    for role, names in populations.items():
        if isinstance(names, str) or not names:
            raise LeagueError(f"{role}s are {names!r}; expected a list of at least one name")
    everyone = [_checked_name(name) for names in populations.values() for name in names]
    if twice := sorted(name for name, count in Counter(everyone).items() if count > 1):
        raise LeagueError(f"names occur twice: {', '.join(twice)}; expected one name per member")
    if MEMBER in populations and len(everyone) < 2:
        raise LeagueError("one population has 1 member; expected at least two, who play each other")
    names_by_role = {role + "s": list(names) for role, names in populations.items()}
    return {"event": "league_founded"} | names_by_role


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LeagueError(
            f"{name!r} cannot be a member's name; expected 1 to 128 letters, digits or . _ + -, "
            "beginning with a letter or digit"
        )
    return name


def _shares(weights: Sequence[float] | None, count: int) -> list[float]:
    values = [1.0] * count if weights is None else [float(w) for w in weights]
    total = sum(values)
    if len(values) != count or not all(w >= 0.0 for w in values) or not 0.0 < total < float("inf"):
        raise LeagueError(f"weights are {weights!r}; expected {count} numbers >= 0, not all 0")
    return [w / total for w in values]
