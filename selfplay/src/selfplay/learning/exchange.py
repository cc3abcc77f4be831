"""How several learners, each with all members, make one step of every member.

The gradients of a member's shards are added up from the first to the last, whoever has them: a
learner takes the sum so far from the one before, adds its own, and hands it on; the member's owner
takes the step and sends the weights to all. So the bytes are the same for any number of learners.
Traffic passes through main memory, by gloo.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import torch
import torch.distributed
from torch import Tensor

from lora_evo import EngineStopped
from selfplay.errors import first_line
from selfplay.learning.statistics import StatsSum

_dist: Any = torch.distributed
Gradient: TypeAlias = list[Tensor | None]
"""By parameter of a member; None is zero."""
Part: TypeAlias = tuple[Gradient, StatsSum]
Homes: TypeAlias = Mapping[int, Sequence[int]]
"""By a member's place: the ranks of the learners that have its shards, in the order of these."""
MEETING, PATIENCE = timedelta(minutes=5), timedelta(hours=2)
"""How long learners may take to find each other, and one to hear of another: a death is noticed at
once, and whoever runs them ends the others."""
_LETTERS = 4096
"""Longest text, in bytes, that learners tell each other: a path."""


class PeerLost(EngineStopped):
    """Another learner is gone; what happened there is not known here."""


def added(one: Part, other: Part) -> Part:
    """Return the sum of two parts, in the place of the first."""
    both = zip(one[0], other[0], strict=True)
    if pairs := [(a, b) for a, b in both if a is not None and b is not None]:
        torch._foreach_add_([a for a, _ in pairs], [b for _, b in pairs])
    one[1].add(other[1])
    return [b if a is None else a for a, b in zip(one[0], other[0], strict=True)], one[1]


class Exchange:
    """What a learner sends to the others and hears of them; alone it does neither.

    rank: its number, of so many. machine: a name of it. A member's owner is the learner whose
    number is the rest of its place divided by how many there are.
    """

    def __init__(self, rank: int = 0, count: int = 1, group: Any = None, machine: str = "") -> None:
        self.rank, self.count, self.group = rank, count, group
        self.machines = self.tell(machine)

    def owner(self, place: int) -> int:
        """Return the rank of the learner that has a member's optimiser state."""
        return place % self.count

    def owned(self, members: int) -> list[int]:
        """Return the places, of so many, whose optimiser states are here."""
        return list(range(self.rank, members, self.count))

    def gather(
        self, parts: Mapping[int, list[Part]], homes: Homes, like: Mapping[int, list[Tensor]]
    ) -> dict[int, Part]:
        """Return gradient and statistics of each owned member, summed over all learners.

        parts: by place, those of the shards that are here. like: by place, tensors of the shapes
        and on the devices of a gradient. Raises PeerLost.
        """
        gathered: dict[int, Part] = {}
        for place, ranks in sorted(homes.items()):
            way = [*ranks, self.owner(place)]
            stations = [i for i, rank in enumerate(way) if rank == self.rank]
            for i in stations:
                more = parts[place] if i < len(ranks) else []
                if i:
                    before = gathered.pop(place, None) if way[i - 1] == self.rank else None
                    more = [before or self._receive(way[i - 1], place, like[place]), *more]
                for part in more[1:]:
                    more[0] = added(more[0], part)
                gathered[place] = more[0]
                if i < len(ranks) and way[i + 1] != self.rank:
                    self._send(way[i + 1], place, gathered.pop(place), like[place])
        return gathered

    @torch.no_grad()
    def share(self, place: int, tensors: list[Tensor]) -> None:
        """Give all learners these tensors as the member's owner has them. Raises PeerLost."""
        if self.count == 1:
            return
        flat = _packed(tensors)
        _done(lambda: self.group.broadcast(flat, self.owner(place)))
        if self.owner(place) != self.rank:
            torch._foreach_copy_(tensors, _unpacked(flat, tensors))

    def writer(self, place: int) -> int:
        """Return who writes a member's files for this machine: its owner, or one that is here."""
        here = [rank for rank, name in enumerate(self.machines) if name == self.machines[self.rank]]
        owner = self.owner(place)
        return owner if owner in here else here[place % len(here)]

    def tell(self, text: str) -> list[str]:
        """Tell all learners a text; return those of all, when all have told theirs."""
        if self.count == 1:
            return [text]
        letters = torch.zeros(self.count, _LETTERS, dtype=torch.uint8)
        encoded = text.encode()
        letters[self.rank, : len(encoded)] = torch.tensor(list(encoded), dtype=torch.uint8)
        _done(lambda: self.group.allreduce([letters]))
        return [bytes(row.tolist()).rstrip(b"\0").decode() for row in letters]

    def _send(self, rank: int, place: int, part: Part, like: list[Tensor]) -> None:
        gradient, sums = part
        both = zip(gradient, like, strict=True)
        filled = [torch.zeros_like(t) if g is None else g for g, t in both]
        flat, numbers = _packed(filled), torch.tensor(sums.numbers(), dtype=torch.float64)
        _done(lambda: self.group.send([numbers], rank, 2 * place))
        _done(lambda: self.group.send([flat], rank, 2 * place + 1))

    def _receive(self, rank: int, place: int, like: list[Tensor]) -> Part:
        numbers = torch.empty(len(StatsSum().numbers()), dtype=torch.float64)
        flat = torch.empty(sum(t.numel() for t in like), dtype=like[0].dtype)
        _done(lambda: self.group.recv([numbers], rank, 2 * place))
        _done(lambda: self.group.recv([flat], rank, 2 * place + 1))
        return list(_unpacked(flat, like)), StatsSum.of_numbers(numbers.tolist())


def _done(ask: Callable[[], Any]) -> None:
    """Wait for what is asked of the group."""
    try:
        ask().wait(PATIENCE)
    except RuntimeError as error:
        raise PeerLost(f"lost the others ({first_line(error)})") from error


def _packed(tensors: Sequence[Tensor]) -> Tensor:
    """Return the numbers of all tensors as one in main memory, where a GPU copies fast."""
    flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
    if flat.device.type == "cpu":
        return flat
    return torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True).copy_(flat)


def _unpacked(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return what `_packed` packed, on the devices of tensors of the same shapes."""
    parts = torch.split(flat, [tensor.numel() for tensor in like])
    return [part.view(t.shape).to(t.device) for part, t in zip(parts, like, strict=True)]


def open_store(address: str) -> tuple[Any, tuple[str, int]]:
    """Return a store at which learners meet as long as it is held, and where it listens.

    address: of this machine; torch itself would listen on all addresses.
    """
    listener = socket.create_server((address, 0))
    place = address, listener.getsockname()[1]
    return _store(place, listener.detach()), place


def open_group(address: str, store: tuple[str, int], rank: int, count: int) -> Any:
    """Return a gloo group of so many processes, which is not torch's default one.

    address: of this process, which others reach; gloo would take that of the machine's name. store:
    where one is open. Raises PeerLost.
    """
    gloo = _dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = PATIENCE
    try:
        options._devices = [gloo.create_device(hostname=address)]
        return gloo(_store(store), rank, count, options)
    except RuntimeError as error:
        raise PeerLost(f"met no others ({first_line(error)})") from error


def _store(place: tuple[str, int], listener: int | None = None) -> Any:
    return _dist.TCPStore(
        *place,
        is_master=listener is not None,
        master_listen_fd=listener,
        wait_for_workers=False,
        timeout=MEETING,
    )
