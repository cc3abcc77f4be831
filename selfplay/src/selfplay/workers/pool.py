"""The workers of a run: asked, replaced when they die, added when there is room.

Every question is a function of the members' states and of what is sent, and the driver holds the
states as of the last answer. So a worker that dies in the middle is started again with them, where
there is room, and only what it had not answered is asked once more, with the same result.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

from lora_evo import EngineStopped
from selfplay.errors import SelfplayError
from selfplay.learning.member_state import MemberState
from selfplay.rows import WorkerRow
from selfplay.workers.actors import Actors, Ask, Share, why

_DEATHS_IN_A_ROW = 5


class WorkerPool:
    """Asks workers and keeps the members' states.

    places: of members. wanted: workers; there are fewer while there is no room.
    """

    def __init__(self, actors: Actors, places: int, wanted: int) -> None:
        self._actors, self._wanted = actors, wanted
        self.step = 0
        """As of which step members are published."""
        self.shares, self.about = actors.start(spread(places, wanted))
        born: dict[int, MemberState] = {}
        asked = [(share, share.actor.states.remote()) for share in self.shares]
        for share, ref in asked:
            states = actors.answer(ref, share)
            born |= dict(zip(share.places, states, strict=True))
        self.states = [born[place] for place in range(places)]
        """Of all members, by place."""

    @property
    def names(self) -> tuple[str, ...]:
        """The members by place."""
        return tuple(state.name for state in self.states)

    def places(self, members: Iterable[str | None]) -> list[int | None]:
        """The places of these members; the base has none. Raises SelfplayError."""
        known: dict[str | None, int | None] = {n: place for place, n in enumerate(self.names)}
        known[None] = None
        try:
            return [known[member] for member in members]
        except KeyError as error:
            raise SelfplayError(
                f"no member named {error.args[0]!r}; there are {', '.join(self.names)}"
            ) from error

    def scatter(
        self, owners: Sequence[int | None], ask: Callable[[Any, list[int]], Any]
    ) -> Iterator[tuple[list[int], Any]]:
        """Ask every worker for its pieces of work; yield pieces and answer as they come.

        owners: the place that each piece belongs to; None where any worker may do it, a question
        of its own to one that has least to do. ask sends an actor the question for some pieces.
        """
        left = list(range(len(owners)))
        for _ in range(_DEATHS_IN_A_ROW):
            asked = {
                ask(share.actor, pieces): (share, pieces)
                for share, pieces in self._questions(left, owners)
            }
            dead: dict[str, str] = {}
            left = []
            while asked:
                ref = self._actors.first(list(asked))
                share, pieces = asked.pop(ref)
                try:
                    answer = self._actors.answer(ref, share)
                except self._actors.deaths as error:
                    dead[share.name] = why(error)
                    left += pieces
                else:
                    yield pieces, answer
            if not dead:
                return
            self._recover(dead)
        raise EngineStopped(f"workers died {_DEATHS_IN_A_ROW} times over the same work")

    def everywhere(self, ask: Ask) -> None:
        """Ask every worker, those that replace the dead too."""
        done: set[str] = set()
        while rest := [share for share in self.shares if share.name not in done]:
            asked = [(share, ask(share)) for share in rest]
            dead: dict[str, str] = {}
            for share, ref in asked:
                try:
                    self._actors.answer(ref, share)
                    done.add(share.name)
                except self._actors.deaths as error:
                    dead[share.name] = why(error)
            if dead:
                self._recover(dead)

    def load(self, states: Sequence[MemberState]) -> None:
        """Let all members continue from these states."""
        self.states = list(states)
        self.everywhere(self._load)

    def end_step(self) -> dict[str, WorkerRow]:
        """Return what each worker did in the step; use room for workers that are wanted."""
        found = {}
        for share in self.shares:
            members = tuple(self.names[place] for place in share.places)
            busy, share.busy = round(share.busy, 4), 0.0
            found[share.name] = WorkerRow(share.host, members, busy, share.memory_mb)
        more = self._wanted - len(self.shares)
        if more > 0 and (room := self._actors.room()) > 0:
            count = len(self.shares) + min(more, room)
            click.echo(f"there is room for more workers: members are spread over {count}", err=True)
            self._spread(count)
        return found

    def close(self) -> None:
        """End all workers."""
        self._actors.end(self.shares)
        self.shares = []

    def _questions(
        self, pieces: Sequence[int], owners: Sequence[int | None]
    ) -> list[tuple[Share, list[int]]]:
        home = {place: share.name for share in self.shares for place in share.places}
        mine: dict[str, list[int]] = {share.name: [] for share in self.shares}
        anywhere: dict[str, list[int]] = {share.name: [] for share in self.shares}
        for piece in pieces:
            owner = owners[piece]
            if owner is not None:
                mine[home[owner]].append(piece)
        for piece in pieces:
            if owners[piece] is None:
                least = min(mine, key=lambda name: len(mine[name]) + len(anywhere[name]))
                anywhere[least].append(piece)
        questions = [(share, mine[share.name]) for share in self.shares if mine[share.name]]
        return questions + [(s, [piece]) for s in self.shares for piece in anywhere[s.name]]

    def _recover(self, dead: dict[str, str]) -> None:
        """Replace dead workers where there is room; else spread their members over the living."""
        lost = [share for share in self.shares if share.name in dead]
        for share in lost:
            line = f"{share.name} on {share.host} died ({dead[share.name]}); its members continue"
            click.echo(line, err=True)
        self._actors.end(lost)
        self.shares = [share for share in self.shares if share.name not in dead]
        if self._actors.has_room(len(lost)):
            new, _ = self._actors.start([share.places for share in lost])
            self.shares = [*self.shares, *new]
            self._give_states(new)
        elif self.shares:
            self._spread(len(self.shares))
        else:
            raise EngineStopped("all workers died, and there is no room for others")

    def _spread(self, count: int) -> None:
        """Start so many new workers with all members' states, in place of those there are."""
        self.close()
        self.shares, _ = self._actors.start(spread(len(self.states), count))
        self._give_states(self.shares)

    def _give_states(self, shares: Sequence[Share]) -> None:
        asked = [(share, self._load(share)) for share in shares]
        try:
            for share, ref in asked:
                self._actors.answer(ref, share)
        except self._actors.deaths as error:
            raise EngineStopped(f"a worker died while it started: {why(error)}") from error

    def _load(self, share: Share) -> Any:
        states = [self.states[place] for place in share.places]
        return share.actor.load.remote(states, self.step)


def spread(places: int, workers: int) -> list[tuple[int, ...]]:
    """Give places to workers in turn, so that each gets as many of every role."""
    return [tuple(range(first, places, workers)) for first in range(workers)]
