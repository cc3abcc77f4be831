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
from itertools import islice
from pathlib import Path
from typing import Any

from lora_evo import Adapter, EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line
from selfplay.learning.batch import Outcome, TrainingSample, make_batch
from selfplay.learning.exchange import PeerLost
from selfplay.learning.statistics import UpdateStats
from selfplay.members import Advance, Members, SavedMember, all_founders, role_of
from selfplay.opening import read_member, save_member
from selfplay.pieces import blocks
from selfplay.prompts.template import Template
from selfplay.records.rows import WorkerRow
from selfplay.rollout import Prompts, W
from selfplay.workers.worker import Place, Worker, WorkerInfo, versions

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

    @property
    def text(self) -> str:
        """How many workers there are, of what kind, and on which machines."""
        hosts = Counter(place.host for place in self.places)
        count, kind = len(self.workers), "GPU" if self.gpus else "core"
        where = ", ".join(f"{number} on {host}" for host, number in hosts.items())
        return f"{count} worker{'s' * (count > 1)}, one a {kind}: {where}"

    def here(self) -> list[bool]:
        """Say of each worker whether it is on the driver's machine."""
        node = self._ray.get_runtime_context().get_node_id()
        return [place.node == node for place in self.places]

    def put(self, value: Any) -> Any:
        """Put what several workers are to be given into Ray's store; return what stands for it."""
        return self._ray.put(value)

    def everywhere(self, method: str, *arguments: Any) -> list[Any]:
        """Ask every worker the same; return the answers in order."""
        return self.ask(method, [arguments] * len(self.workers))

    def ask(
        self, method: str, arguments: Sequence[tuple[Any, ...]], patience: float | None = None
    ) -> list[Any]:
        """Ask every worker, with arguments of its own; return the answers in order."""
        answers = dict(self.stream(method, arguments, patience))
        return [answers[rank] for rank in range(len(self.workers))]

    def ask_one(self, rank: int, method: str, *arguments: Any) -> Any:
        """Ask one worker, and return its answer."""
        ref = self.workers[rank].actor.do.remote(method, *arguments)
        ((_, answer),) = self._answers({ref: rank})
        return answer

    def stream(
        self, method: str, arguments: Sequence[tuple[Any, ...]], patience: float | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Ask every worker; yield rank and answer as they come.

        Raises what a worker raised for the user, and EngineStopped where one has died.
        """
        asked = {
            worker.actor.do.remote(method, *arguments[rank]): rank
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
                answer, seconds, memory = self._ray.get(ready[0])
            except Exception as error:
                raise self._cause({rank: error}, asked) from None
            del asked[ready[0]]
            self.workers[rank].busy += seconds
            self.workers[rank].memory_mb = memory
            yield rank, answer

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
    expected = {"base": infos[0].identity["base"]} | versions()
    for worker, about in zip(workers, infos, strict=True):
        odd = [
            f"{k} {about.identity[k]} ({v})" for k, v in expected.items() if about.identity[k] != v
        ]
        if odd:
            raise SelfplayError(
                f"{worker} is not as the others (what they have): {', '.join(odd)}; install the "
                "same versions on all machines, and put the same files of the base there"
            )


class RemotePopulation(Members):
    """All members on workers, which hold a population each."""

    def __init__(self, pool: WorkerPool, config: Config, template: Template) -> None:
        about = pool.about
        prompts = Prompts(config, template, about.tokenizer, about.context)
        super().__init__(config, prompts, about.shares_parameters)
        self.pool, self._names = pool, all_founders(config)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._names)

    def written(self, asked: Sequence[W], pieces: Sequence[Sequence[int]]) -> Iterator[W]:
        packed = []
        for block in blocks([len(piece) for piece in pieces], len(self.pool.workers)):
            numbers = [i for p in block for i in pieces[p]]
            local = iter(range(len(numbers)))
            mine = [list(islice(local, len(pieces[p]))) for p in block]
            packed.append((pickle.dumps([asked[i] for i in numbers]), mine))
        for _, answer in self.pool.stream("written", packed):
            yield from pickle.loads(answer)

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
            self.config.learner,
            max_completion_length=self.config.rollout.max_completion_length,
            pieces=self.config.pieces,
        )
        homes: dict[int, dict[int, None]] = defaultdict(dict)
        shares = []
        for rank, block in enumerate(
            blocks([shard.tokens for shard in batch.shards], len(self.pool.workers))
        ):
            shares.append([batch.shards[number] for number in block])
            for shard in shares[rank]:
                homes[shard.members[0]][rank] = None
        ways = {place: list(ranks) for place, ranks in homes.items()}
        asked = [(pickle.dumps(share), ways, lr_factor) for share in shares]
        outcomes: dict[int, Outcome] = {}
        done, total = 0, sum(len(shard.rows) for shard in batch.shards)
        for rank, answer in self.pool.stream("learn", asked):
            outcomes |= answer
            done += sum(len(shard.rows) for shard in shares[rank])
            if advance is not None:
                advance(done, total)
        return batch.stats(self._names, outcomes)

    def sync(self, step: int) -> None:
        if not self.shares_parameters:
            self.pool.everywhere("sync", step)

    def export(self, member: str) -> Adapter:
        owner = self._names.index(member) % len(self.pool.workers)
        adapter: Adapter = self.pool.ask_one(owner, "export", member)
        return adapter

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self.pool.everywhere("replace", member, self.pool.put(adapter), new_name)
        self._names[self._names.index(member)] = new_name

    def save(self, folder: Path, home: Path) -> list[SavedMember]:
        found: dict[int, SavedMember] = {}
        for of_worker in self.pool.everywhere("save", folder, home):
            for place, saved in of_worker.items():
                if not isinstance(saved, SavedMember):  # of a machine without this folder
                    saved = save_member(saved[0], saved[1], folder, home)
                found[place] = saved
        return [found[place] for place in range(len(self._names))]

    def load(self, folder: Path, members: Sequence[SavedMember]) -> None:
        here = self.pool.here()
        for place, saved in enumerate(members):
            state = None if all(here) else self.pool.put(read_member(folder, saved))
            asked = [(place, folder, saved, None if near else state) for near in here]
            self.pool.ask("take", asked)
        self._names = [saved.name for saved in members]

    def end_step(self) -> dict[str, WorkerRow]:
        rows = {}
        for rank, worker in enumerate(self.pool.workers):
            owned = tuple(self._names[rank :: len(self.pool.workers)])
            host, busy = self.pool.places[rank].host, round(worker.busy, 4)
            rows[worker.name] = WorkerRow(host, owned, busy, worker.memory_mb)
            worker.busy = 0.0
        return rows
