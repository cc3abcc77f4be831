"""The workers of a run, each with the base and all members, and one population over them.

A phase's work is cut into pieces that do not depend on the workers; each worker is asked once, for
neighbouring pieces. Nothing is mended here: the first failure of a worker ends them all, and the
run goes back to its last checkpoint (`selfplay.training`).
"""

import pickle
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lora_evo import Adapter, EngineStopped
from selfplay.config import Config
from selfplay.errors import SelfplayError, first_line
from selfplay.learning.batch import Outcome, TrainingSample, make_batch, share_out
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


class WorkerPool:
    """Asks workers, and ends them.

    ray: the module, connected. gpus: of each worker, 0 or 1. alone: all are on this machine.
    """

    def __init__(
        self, ray: Any, config: Config, template: Template, gpus: int, count: int, alone: bool
    ) -> None:
        self._ray, self._kind = ray, "GPU" if gpus else "core"
        self.node = ray.get_runtime_context().get_node_id()
        needs = {"num_cpus": 1, "num_gpus": gpus}
        actor = ray.remote(max_restarts=0, max_task_retries=0, **needs)(Worker)
        self.actors = [actor.remote() for _ in range(count)]
        self.names = [f"worker-{n}" for n in range(count)]
        self.busy, self.memory_mb = [0.0] * count, [0.0] * count
        """Seconds that each has worked since they were last counted, and its largest memory."""
        try:
            self.places: list[Place] = self.everywhere("meet", alone)
            asked = [(config, template, rank, self.places) for rank in range(count)]
            self.infos: list[WorkerInfo] = self.ask("open", asked)
            for rank, info in enumerate(self.infos):
                check_equal(self.name(rank), info.identity, self.infos[0].identity["base"])
        except BaseException:
            self.close()
            raise

    def name(self, rank: int) -> str:
        """Return a worker's name, with its process and machine."""
        place = self.places[rank] if hasattr(self, "places") else None
        where = f" (process {place.process} on {place.host})" if place else ""
        return f"{self.names[rank]}{where}"

    @property
    def text(self) -> str:
        """How many workers there are, of what kind, and on which machines."""
        hosts, count = Counter(place.host for place in self.places), len(self.actors)
        where = ", ".join(f"{number} on {host}" for host, number in hosts.items())
        return f"{count} worker{'s' * (count > 1)}, one a {self._kind}: {where}"

    def everywhere(self, method: str, *arguments: Any) -> list[Any]:
        """Ask every worker the same; return the answers in order."""
        return self.ask(method, [arguments] * len(self.actors))

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask every worker, with arguments of its own; return the answers in order."""
        answers = dict(self.stream(method, dict(enumerate(arguments))))
        return [answers[rank] for rank in range(len(self.actors))]

    def stream(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Ask workers, by rank; yield rank and answer as they come.

        Raises what a worker raised for the user, and EngineStopped where one has died.
        """
        asked = {self.actors[n].do.remote(method, *own): n for n, own in arguments.items()}
        return self._answers(asked, _PLACES_S if method == "meet" else None)

    def _answers(self, asked: dict[Any, int], patience: float | None) -> Iterator[tuple[int, Any]]:
        while asked:
            ready, _ = self._ray.wait(list(asked), num_returns=1, timeout=patience)
            if not ready:
                raise SelfplayError(
                    f"{len(asked)} of {len(self.actors)} workers wait for room in Ray, which "
                    "others have taken; look at `ray status`, and give fewer --workers"
                )
            rank = asked[ready[0]]
            try:
                answer, seconds, self.memory_mb[rank] = self._ray.get(ready[0])
            except Exception as error:
                raise self._cause({rank: error}, asked) from None
            del asked[ready[0]]
            self.busy[rank] += seconds
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
        worker, cause = self.name(rank), getattr(first, "cause", None)
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
        for actor in self.actors:
            self._ray.kill(actor)


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


def check_equal(worker: str, identity: Mapping[str, str], base: str) -> None:
    """Raise SelfplayError where a worker has other versions than here, or not this base."""
    expected = versions() | {"base": base}
    if odd := [f"{k} {identity[k]} (not {v})" for k, v in expected.items() if identity[k] != v]:
        raise SelfplayError(
            f"{worker} is not as the others: {', '.join(odd)}; install the same versions on all "
            "machines, and put the same files of the base there"
        )


class RemotePopulation(Members):
    """All members on workers, which hold a population each."""

    def __init__(self, pool: WorkerPool, config: Config, template: Template) -> None:
        about = pool.infos[0]
        prompts = Prompts(config, template, about.tokenizer, about.context)
        super().__init__(config, prompts, about.shares_parameters)
        self.pool, self._names = pool, all_founders(config)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._names)

    def written(self, pieces: Sequence[Sequence[W]]) -> Iterator[W]:
        shares = blocks([len(piece) for piece in pieces], len(self.pool.actors))
        packed = [(pickle.dumps([pieces[number] for number in share]),) for share in shares]
        for _, answer in self.pool.stream("written", dict(enumerate(packed))):
            yield from pickle.loads(answer)

    def update(
        self,
        samples: Sequence[TrainingSample],
        lr_factor: float = 1.0,
        advance: Advance | None = None,
    ) -> dict[str, UpdateStats]:
        config = self.config
        batch = make_batch(
            samples,
            self._names,
            [role_of(name) for name in self._names],
            config.learner,
            max_completion_length=config.rollout.max_completion_length,
            pieces=config.pieces,
        )
        shares, homes = share_out(batch.shards, len(self.pool.actors))
        asked = {n: (pickle.dumps(share), homes, lr_factor) for n, share in enumerate(shares)}
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
        owner = self._names.index(member) % len(self.pool.actors)
        ((_, adapter),) = self.pool.stream("export", {owner: (member,)})
        return adapter  # type: ignore[no-any-return]

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        self.pool.everywhere("replace", member, adapter, new_name)
        self._names[self._names.index(member)] = new_name

    def save(self, folder: Path, home: Path) -> list[SavedMember]:
        members: dict[int, SavedMember] = {}
        for of_worker in self.pool.everywhere("save", folder, home):
            for place, saved in of_worker.items():
                if not isinstance(saved, SavedMember):  # of a machine without this folder
                    saved = save_member(saved[0], saved[1], folder, home)
                members[place] = saved
        return [members[place] for place in range(len(self._names))]

    def load(self, folder: Path, members: Sequence[SavedMember]) -> None:
        near = [place.node == self.pool.node for place in self.pool.places]
        for place, saved in enumerate(members):
            state = None if all(near) else read_member(folder, saved)
            asked = [(place, folder, saved, None if here else state) for here in near]
            self.pool.ask("take", asked)
        self._names = [saved.name for saved in members]

    def end_step(self) -> dict[str, WorkerRow]:
        pool, rows = self.pool, {}
        for rank, name in enumerate(pool.names):
            owned = tuple(self._names[rank :: len(pool.names)])
            busy, memory = round(pool.busy[rank], 4), pool.memory_mb[rank]
            rows[name] = WorkerRow(pool.places[rank].host, owned, busy, memory)
            pool.busy[rank] = 0.0
        return rows
