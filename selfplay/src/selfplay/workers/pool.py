"""The workers of a run, and its members on them as one population; no gradient leaves a worker.

Every question is a function of the members' states and of what is sent. States as of the last
answer stay in Ray's store: where the worker is, and, where that is not the driver's machine, on one
more. The driver knows where they are. So a worker that dies in the middle is started again with
them, where there is room, and only what it had not answered is asked once more, with the same
result.
"""

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from torch import Tensor

from lora_evo import Adapter, EngineStopped
from lora_evo.model import Request
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import MemberState, NamedState, join_states, split_state
from selfplay.learning.statistics import UpdateStats
from selfplay.members import Advance
from selfplay.prompts.template import Template
from selfplay.records.rows import WorkerRow
from selfplay.rollout import Attempt, Prompts, Proposed
from selfplay.workers.worker import Reply, Worker, WorkerInfo, pack_state, read_state, versions

W = TypeVar("W", Proposed, Attempt)
_DEATHS_IN_A_ROW = 5
_CHANGES = ("states", "update", "replace")
"""Questions after which members may be others."""
_ROOM_S = 10.0
"""How long to wait for room that a dead worker may leave."""
_PATIENCE_S = 30.0
"""After how many seconds a line says what is waited for."""


@dataclass(frozen=True)
class MemberRef:
    """A member as it was after its last change."""

    name: str
    state: Any
    """The reference of its `MemberState` in Ray's store."""


@dataclass
class WorkerHandle:
    """A worker and the places of its members."""

    name: str
    actor: Any
    places: tuple[int, ...]
    host: str = ""
    node: str = ""
    process: int = 0
    busy: float = 0.0
    """Seconds that it has worked since they were last counted."""
    memory_mb: float = 0.0
    states: Sequence[Any] = ()
    """References of what its members became by the last question that changes them."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """Send the worker a question; return the reference of the answer."""
        if method not in _CHANGES:
            return self.actor.do.remote(method, *arguments)
        several = self.actor.change.options(num_returns=1 + len(self.places))
        answer, *self.states = several.remote(method, *arguments)
        return answer


Ask = Callable[[WorkerHandle, list[int]], Any]
"""Sends a worker a question about some pieces of work; returns the reference of the answer."""


class WorkerPool:
    """Asks workers and keeps the members' states.

    ray: the module, connected. founders: the first members by place. gpus: of each worker, 0 or 1.
    count: workers; there are fewer once one has died and left no room for another.
    """

    def __init__(
        self,
        ray: Any,
        config: Config,
        template: Template,
        founders: Sequence[str],
        gpus: int,
        count: int,
    ) -> None:
        self._ray, self._founders = ray, founders
        self._settings = (config, template)
        needs = {"num_cpus": 1, "num_gpus": gpus}
        self._class = ray.remote(max_restarts=0, max_task_retries=0, **needs)(Worker)
        self._resource = "GPU" if gpus else "CPU"
        self._count = 0
        errors = ray.exceptions
        self._deaths: tuple[type[Exception], ...] = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
        )
        self.step = 0
        """As of which step members are published."""
        self._home = ray.get_runtime_context().get_node_id()
        self._kept: dict[int, MemberRef] = {}
        """All members by place."""
        self.shares = self._start(spread(len(founders), count))
        for share, ref in [(share, share.ask("states")) for share in self.shares]:
            self._answer(ref, share)

    @property
    def names(self) -> tuple[str, ...]:
        """The members by place."""
        return tuple(self._kept[place].name for place in range(len(self._kept)))

    def places(self, members: Iterable[str | None]) -> list[int | None]:
        """The places of these members; the base has none."""
        known = {name: place for place, name in enumerate(self.names)}
        return [None if member is None else known[member] for member in members]

    def scatter(self, owners: Sequence[int | None], ask: Ask) -> Iterator[tuple[list[int], Any]]:
        """Ask every worker for its pieces of work; yield pieces and answer as they come.

        owners: the place that each piece belongs to; None where any worker may do it, which is
        asked of whoever has nothing else to do, one by one.
        """
        left = list(range(len(owners)))
        for _ in range(_DEATHS_IN_A_ROW):
            free: Iterator[list[int]] = iter([[p] for p in left if owners[p] is None])
            pieces_of = {s.name: [p for p in left if owners[p] in s.places] for s in self.shares}
            asked: dict[Any, tuple[WorkerHandle, list[int]]] = {}
            dead: dict[str, str] = {}
            left = []
            for share in self.shares:
                if pieces := pieces_of[share.name] or next(free, []):
                    asked[ask(share, pieces)] = (share, pieces)
            while asked:
                (ref,), _ = self._ray.wait(list(asked), num_returns=1)
                share, pieces = asked.pop(ref)
                try:
                    answer = self._answer(ref, share)
                except self._deaths as error:
                    dead[share.name] = first_line(error)
                    left += pieces
                else:
                    if more := next(free, []):
                        asked[ask(share, more)] = (share, more)
                    yield pieces, answer
            left += [piece for (piece,) in free]
            if not dead:
                return
            self._recover(dead)
        raise EngineStopped(f"workers died {_DEATHS_IN_A_ROW} times over the same work")

    def everywhere(self, ask: Callable[[WorkerHandle], Any]) -> None:
        """Ask every worker, those that replace the dead too."""
        for _ in self.scatter(range(len(self._kept)), lambda share, _: ask(share)):
            pass

    def load(self, states: Sequence[MemberState]) -> None:
        """Let all members continue from these states."""
        store = self._ray.put
        self._kept = {p: MemberRef(s.name, store(pack_state(s))) for p, s in enumerate(states)}
        self.everywhere(self._load)

    def states(self) -> list[MemberState]:
        """Fetch the states of all members, by place."""
        references = [self._kept[place].state for place in range(len(self._kept))]
        return [read_state(state) for state in self._ray.get(references)]

    def end_step(self) -> dict[str, WorkerRow]:
        """Return what each worker did in the step."""
        rows = {}
        for share in self.shares:
            members = tuple(self.names[place] for place in share.places)
            busy, share.busy = round(share.busy, 4), 0.0
            rows[share.name] = WorkerRow(share.host, members, busy, share.memory_mb)
        return rows

    def close(self) -> None:
        """End all workers."""
        self._end(self.shares)
        self.shares = []

    def has_room(self, count: int) -> bool:
        """Whether there is, within seconds, room for so many more workers."""
        end = time.monotonic() + _ROOM_S
        while self._ray.available_resources().get(self._resource, 0.0) < count:
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def _start(self, parts: Sequence[tuple[int, ...]]) -> list[WorkerHandle]:
        """Start a worker for each tuple of places, with the members as they are now.

        Raises SelfplayError when workers have other versions or another base than each other.
        """
        shares = []
        for places in parts:
            shares.append(WorkerHandle(f"worker-{self._count}", self._class.remote(), places))
            self._count += 1
        try:
            asked = [
                s.ask("open", *self._settings, [self._founders[p] for p in s.places])
                for s in shares
            ]
            if self._ray.wait(asked, num_returns=len(asked), timeout=_PATIENCE_S)[1]:
                line = f"{len(asked)} workers load the base model, or wait for room in Ray ..."
                click.echo(line, err=True)
            infos: list[WorkerInfo] = [
                self._answer(*pair) for pair in zip(asked, shares, strict=True)
            ]
            for share, about in zip(shares, infos, strict=True):
                share.host, share.node, share.process = about.host, about.node, about.process
            check_equal(shares, infos)
            self.about = infos[0]
            for share, ref in [(s, self._load(s)) for s in shares] if self._kept else ():
                self._answer(ref, share)
        except self._deaths as error:
            self._end(shares)
            raise EngineStopped(f"a worker died while it started: {first_line(error)}") from error
        except BaseException:
            self._end(shares)
            raise
        return shares

    def _answer(self, ref: Any, share: WorkerHandle) -> Any:
        """Wait for an answer; what a worker raised for the user is raised here."""
        try:
            done: Reply = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ValueError | OSError):
                raise error.cause from None
            raise
        share.busy += done.seconds
        share.memory_mb = done.memory_mb
        if done.changed:
            self._keep(share, done.changed)
        return done.result

    def _keep(self, share: WorkerHandle, names: Sequence[str | None]) -> None:
        """Record which worker has the newest state of each changed member.

        A state on another machine than this one is first copied to one more. Raises what the death
        of a worker raises where that fails: the members then count as unchanged.
        """
        triples = zip(share.places, names, share.states, strict=True)
        refs = {place: MemberRef(name, state) for place, name, state in triples if name is not None}
        away = [other for other in self.shares if other.node != share.node != self._home]
        first = share.places[0] % max(1, len(away))
        for other in away[first:] + away[:first]:
            try:
                states = [kept.state for kept in refs.values()]
                self._ray.get(other.ask("hold", list(refs), *states))
                break
            except self._deaths as error:
                failed = error  # who died is found by the next question
        else:
            if away:
                raise failed
        self._kept |= refs

    def _recover(self, dead: dict[str, str]) -> None:
        """Replace dead workers where there is room; else spread their members over the living."""
        lost = [share for share in self.shares if share.name in dead]
        for share in lost:
            line = f"{share.name} on {share.host} died ({dead[share.name]}); its members continue"
            click.echo(line, err=True)
        self._end(lost)
        self.shares = [share for share in self.shares if share.name not in dead]
        if self.has_room(len(lost)):
            self.shares += self._start([share.places for share in lost])
        elif self.shares:
            parts = spread(len(self._kept), len(self.shares))
            self.close()
            self.shares = self._start(parts)
        else:
            raise EngineStopped("all workers died, and there is no room for others")

    def _load(self, share: WorkerHandle) -> Any:
        return share.ask("load", self.step, *(self._kept[place].state for place in share.places))

    def _end(self, shares: Sequence[WorkerHandle]) -> None:
        for share in shares:
            self._ray.kill(share.actor)


def spread(places: int, workers: int) -> list[tuple[int, ...]]:
    """Give places to workers in turn, so that each gets as many of every role."""
    return [tuple(range(first, places, workers)) for first in range(workers)]


def check_equal(shares: Sequence[WorkerHandle], infos: Sequence[WorkerInfo]) -> None:
    """Raise SelfplayError where a worker has other versions, or another base than the first."""
    expected = versions()
    for share, about in zip(shares, infos, strict=True):
        odd = [
            f"{k} {v} (here {expected[k]})" for k, v in about.versions.items() if v != expected[k]
        ]
        if odd:
            raise SelfplayError(
                f"{share.name} on {share.host} has other versions: {', '.join(odd)}; install the "
                "same on all machines"
            )
        if about.base != infos[0].base:
            raise SelfplayError(
                f"{share.name} on {share.host} has another base model than {shares[0].name} on "
                f"{shares[0].host} under the same name; put the same files on all machines"
            )


class RemotePopulation:
    """What `Population` is, over workers: a member works where it is, the base where there is room.

    Every method of `Population` is asked of the workers, which hold a population each.
    """

    def __init__(self, pool: WorkerPool, config: Config, template: Template) -> None:
        self._pool, about = pool, pool.about
        self.prompts = Prompts(config, template, about.tokenizer, about.context)

    @property
    def members(self) -> tuple[str, ...]:
        return self._pool.names

    @property
    def shares_parameters(self) -> bool:
        return self._pool.about.shares_parameters

    def propose(self, drafts: Sequence[Proposed]) -> Iterator[Proposed]:
        members = [draft.teacher for draft in drafts]
        return self._written("propose", drafts, members, self.prompts.of_proposals)

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        members = [attempt.member for attempt in attempts]
        return self._written("solve", attempts, members, self.prompts.of_attempts)

    def _written(
        self,
        method: str,
        asked: Sequence[W],
        members: Sequence[str | None],
        requests: Callable[[Sequence[W]], list[Request]],
    ) -> Iterator[W]:
        """Yield the workers' answers; the base's requests are batched as in one process."""
        pieces = [[i] for i, member in enumerate(members) if member is not None]
        base = [i for i, member in enumerate(members) if member is None]
        batches = base_batches(requests([asked[i] for i in base]), self._pool.about.base_rows)
        pieces += [[base[k] for k in batch] for batch in batches]

        def of(chosen: Sequence[int]) -> bytes:
            return pickle.dumps([asked[i] for i in sorted(i for p in chosen for i in pieces[p])])

        owners = self._pool.places(members[first] for first, *_ in pieces)
        answers = self._pool.scatter(owners, lambda share, mine: share.ask(method, of(mine)))
        for _, packed in answers:
            yield from pickle.loads(packed)

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, UpdateStats]:
        def of(chosen: Sequence[int]) -> bytes:
            return pickle.dumps([samples[i] for i in chosen])

        found: dict[str, UpdateStats] = {}
        owners = self._pool.places(sample.member for sample in samples)
        answers = self._pool.scatter(
            owners, lambda share, mine: share.ask("update", of(mine), lr_factor)
        )
        done = 0
        for chosen, stats in answers:
            found |= stats
            done += len(chosen)
            if advance is not None:
                advance(done, len(samples))
        return {member: found[member] for member in self.members if member in found}

    def sync(self, step: int) -> None:
        self._pool.step = step
        if not self.shares_parameters:
            self._pool.everywhere(lambda share: share.ask("sync", step))

    def export(self, member: str) -> Adapter:
        adapter: Adapter = self._ask(member, "export", member)
        return adapter

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self._ask(member, "replace", member, adapter, new_name)

    def state_dict(self) -> NamedState:
        return join_states(self._pool.states())

    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self._pool.load(split_state(tensors, values))

    def end_step(self) -> dict[str, WorkerRow]:
        return self._pool.end_step()

    def _ask(self, member: str, method: str, *arguments: Any) -> Any:
        owners = self._pool.places([member])
        ((_, answer),) = self._pool.scatter(owners, lambda share, _: share.ask(method, *arguments))
        return answer


def base_batches(requests: Sequence[Request], size: int) -> list[list[int]]:
    """Cut the base's requests, by index, as an engine in a single process would."""
    prompts = [request.prompt_ids for request in requests]
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), prompts[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]
