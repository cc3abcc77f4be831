"""The workers of a run, each with the base and all members, and one population over them.

A phase's work is cut into pieces that do not depend on the workers; each worker is asked once, for
neighbouring pieces. Nothing is mended here: the first failure of a worker ends them all, and the
run goes back to its last checkpoint (`selfplay.training`).
"""

import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo import Adapter, EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line
from selfplay.learning.batch import Outcome, TrainingSample, make_batch
from selfplay.learning.exchange import PeerLost
from selfplay.learning.statistics import UpdateStats
from selfplay.members import Advance, SavedMember, all_founders, cut, role_of
from selfplay.opening import read_member, save_member
from selfplay.pieces import blocks
from selfplay.prompts.template import Template
from selfplay.records.rows import WorkerRow
from selfplay.rollout import Attempt, Prompts, Proposed, W
from selfplay.workers.worker import Place, Reply, Worker, WorkerInfo, versions

_PLACES_S = 300.0
"""How long workers may wait for the room that was free a moment before."""
_CAUSE_S = 10.0
"""How long the worker that failed first may take to be known as such, after others missed it."""


@dataclass
class WorkerHandle:
    """A worker; busy: seconds that it has worked since they were last counted."""

    name: str
    actor: Any
    place: Place | None = None
    busy: float = 0.0
    memory_mb: float = 0.0

    def __str__(self) -> str:
        where = f" (process {self.place.process} on {self.place.host})" if self.place else ""
        return f"{self.name}{where}"


class WorkerPool:
    """Asks workers, and ends them.

    ray: the module, connected. gpus: of each worker, 0 or 1. alone: all are on this machine.
    """

    def __init__(
        self, ray: Any, config: Config, template: Template, gpus: int, count: int, alone: bool
    ) -> None:
        self._ray, self.gpus = ray, gpus
        needs = {"num_cpus": 1, "num_gpus": gpus}
        actor = ray.remote(max_restarts=0, max_task_retries=0, **needs)(Worker)
        self.workers = [WorkerHandle(f"worker-{n}", actor.remote()) for n in range(count)]
        try:
            self.places: list[Place] = self.ask("meet", [(alone,)] * count, _PLACES_S)
            for worker, place in zip(self.workers, self.places, strict=True):
                worker.place = place
            asked = [(config, template, rank, self.places) for rank in range(count)]
            infos: list[WorkerInfo] = self.ask("open", asked)
            check_equal(self.workers, infos)
        except BaseException:
            self.close()
            raise
        self.about = infos[0]

    def ask(
        self, method: str, arguments: Sequence[tuple[Any, ...]] = (), patience: float | None = None
    ) -> list[Any]:
        """Ask every worker, with arguments of its own; return the answers in order."""
        answers = dict(self.stream(method, arguments, patience))
        return [answers[rank] for rank in range(len(self.workers))]

    def ask_one(self, rank: int, method: str, *arguments: Any) -> Any:
        """Ask one worker, and return its answer."""
        asked = {self.workers[rank].actor.do.remote(method, *arguments): rank}
        ((_, answer),) = self._answers(asked)
        return answer

    def put(self, value: Any) -> Any:
        """Put what all workers are to be given into Ray's store; return what stands for it."""
        return self._ray.put(value)

    def here(self) -> list[bool]:
        """Say of each worker whether it is on the driver's machine."""
        node = self._ray.get_runtime_context().get_node_id()
        return [place.node == node for place in self.places]

    def stream(
        self, method: str, arguments: Sequence[tuple[Any, ...]] = (), patience: float | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Ask every worker; yield rank and answer as they come.

        Raises what a worker raised for the user, and EngineStopped where one has died.
        """
        asked = {
            worker.actor.do.remote(method, *(arguments[rank] if arguments else ())): rank
            for rank, worker in enumerate(self.workers)
        }
        return self._answers(asked, patience)

    def _answers(
        self, asked: dict[Any, int], patience: float | None = None
    ) -> Iterator[tuple[int, Any]]:
        while asked:
            ready, _ = self._ray.wait(list(asked), num_returns=1, timeout=patience)
            if not ready:
                raise SelfplayError(
                    f"{len(asked)} of {len(self.workers)} workers wait for room in Ray, which "
                    "others have taken; look at `ray status`, and give fewer --workers"
                )
            rank = asked[ready[0]]
            try:
                reply: Reply = self._ray.get(ready[0])
            except Exception as error:
                raise self._cause({rank: error}, asked) from None
            del asked[ready[0]]
            self.workers[rank].busy += reply.seconds
            self.workers[rank].memory_mb = reply.memory_mb
            yield rank, reply.result

    def _cause(self, failed: dict[int, Exception], asked: dict[Any, int]) -> Exception:
        """Return what is to be raised: the failure of the worker that others then missed."""
        end = time.monotonic() + _CAUSE_S
        left = [ref for ref, rank in asked.items() if rank not in failed]
        while all(_is_lost_peer(error) for error in failed.values()) and left:
            ready, left = self._ray.wait(left, timeout=max(0.0, end - time.monotonic()))
            if not ready:
                break
            try:
                self._ray.get(ready[0])
            except Exception as error:
                failed[asked[ready[0]]] = error
        rank, first = min(failed.items(), key=lambda pair: _is_lost_peer(pair[1]))
        worker, cause = self.workers[rank], getattr(first, "cause", None)
        if isinstance(cause, PeerLost):
            return EngineStopped(f"{worker} lost the others ({first_line(cause)})")
        if isinstance(cause, ValueError | OSError):
            return cause
        task_error = isinstance(first, self._ray.exceptions.RayTaskError)
        if task_error or not isinstance(first, self._ray.exceptions.RayError):
            return first
        return EngineStopped(f"{worker} died: {_reason(first)}")

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            self._ray.kill(worker.actor)
        self.workers = []


def _is_lost_peer(error: Exception) -> bool:
    return isinstance(getattr(error, "cause", None), PeerLost)


def _reason(error: Exception) -> str:
    """Say what is known of a worker's death; Ray's own text is a kilobyte of possible causes."""
    kind = type(error).__name__
    if kind == "OutOfMemoryError":
        return "Ray ended it, as memory ran out on its machine"
    if kind in ("NodeDiedError", "ActorUnavailableError") or "node" in first_line(error).lower():
        return "its machine is gone"
    return "it was killed, as the system does where memory runs out"


def check_equal(workers: Sequence[WorkerHandle], infos: Sequence[WorkerInfo]) -> None:
    """Raise SelfplayError where a worker has other versions, or another base than the first."""
    expected = versions()
    for worker, about in zip(workers, infos, strict=True):
        odd = [
            f"{k} {v} (here {expected[k]})" for k, v in about.versions.items() if v != expected[k]
        ]
        if odd:
            raise SelfplayError(
                f"{worker} has other versions: {', '.join(odd)}; install the same on all machines"
            )
        if about.base != infos[0].base:
            raise SelfplayError(
                f"{worker} has another base model than {workers[0]} under the same name; put the "
                "same files on all machines"
            )


class RemotePopulation:
    """What `Population` is, over workers, which hold a population each."""

    def __init__(self, pool: WorkerPool, config: Config, template: Template) -> None:
        self._pool, self._config = pool, config
        self.prompts = Prompts(config, template, pool.about.tokenizer, pool.about.context)
        self._names = all_founders(config)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._names)

    @property
    def places(self) -> str:
        """How many workers there are, of what kind, and on which machines."""
        hosts = Counter(place.host for place in self._pool.places)
        count, kind = len(self._pool.workers), "GPU" if self._pool.gpus else "core"
        where = ", ".join(f"{number} on {host}" for host, number in hosts.items())
        return f"{count} worker{'s' * (count > 1)}, one a {kind}: {where}"

    @property
    def shares_parameters(self) -> bool:
        return self._pool.about.shares_parameters

    def propose(self, drafts: Sequence[Proposed]) -> Iterator[Proposed]:
        return self._written(drafts)

    def solve(self, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
        return self._written(attempts)

    def _written(self, asked: Sequence[W]) -> Iterator[W]:
        pieces, packed = cut(asked, self.prompts, self._config), []
        for block in blocks([len(piece) for piece in pieces], len(self._pool.workers)):
            numbers = [i for p in block for i in pieces[p]]
            places = {i: place for place, i in enumerate(numbers)}
            local = [[places[i] for i in pieces[p]] for p in block]
            packed.append((pickle.dumps([asked[i] for i in numbers]), local))
        for _, written in self._pool.stream("written", packed):
            yield from pickle.loads(written)

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, UpdateStats]:
        batch = make_batch(
            samples,
            self._names,
            [role_of(name) for name in self._names],
            self._config.learner,
            max_completion_length=self._config.rollout.max_completion_length,
            pieces=self._config.pieces,
        )
        homes: dict[int, list[int]] = defaultdict(list)
        asked = []
        shares = blocks([shard.tokens for shard in batch.shards], len(self._pool.workers))
        for rank, block in enumerate(shares):
            for shard in (batch.shards[number] for number in block):
                homes[shard.members[0]].append(rank)
        for block in shares:
            shards = [batch.shards[number] for number in block]
            asked.append((pickle.dumps(shards), dict(homes), lr_factor))
        outcomes: dict[int, Outcome] = {}
        done, total = 0, sum(len(shard.rows) for shard in batch.shards)
        for rank, answer in self._pool.stream("learn", asked):
            outcomes |= answer
            done += sum(len(batch.shards[number].rows) for number in shares[rank])
            if advance is not None:
                advance(done, total)
        return batch.stats(self._names, outcomes)

    def sync(self, step: int) -> None:
        if not self.shares_parameters:
            self._everywhere("sync", step)

    def export(self, member: str) -> Adapter:
        adapter: Adapter = self._pool.ask_one(self._owner(member), "export", member)
        return adapter

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self._everywhere("replace", member, self._pool.put(adapter), new_name)
        self._names[self._names.index(member)] = new_name

    def save(self, folder: Path, home: Path) -> list[SavedMember]:
        found: dict[int, SavedMember] = {}
        for of_worker in self._pool.ask("save", [(folder, home)] * len(self._pool.workers)):
            for place, saved in of_worker.items():
                if not isinstance(saved, SavedMember):  # on a machine without this folder
                    saved = save_member(saved[0], saved[1], folder, home)
                found[place] = saved
        return [found[place] for place in range(len(self._names))]

    def load(self, folder: Path, members: Sequence[SavedMember]) -> None:
        here = self._pool.here()
        for place, saved in enumerate(members):
            state = None if all(here) else self._pool.put(read_member(folder, saved))
            asked = [(place, folder, saved, None if near else state) for near in here]
            self._pool.ask("load", asked)
        self._names = [saved.name for saved in members]

    def end_step(self) -> dict[str, WorkerRow]:
        rows = {}
        for rank, worker in enumerate(self._pool.workers):
            owned = tuple(self._names[rank :: len(self._pool.workers)])
            busy, worker.busy = round(worker.busy, 4), 0.0
            host = worker.place.host if worker.place else ""
            rows[worker.name] = WorkerRow(host, owned, busy, worker.memory_mb)
        return rows

    def _owner(self, member: str) -> int:
        return self._names.index(member) % len(self._pool.workers)

    def _everywhere(self, method: str, *arguments: Any) -> None:
        self._pool.ask(method, [arguments] * len(self._pool.workers))
