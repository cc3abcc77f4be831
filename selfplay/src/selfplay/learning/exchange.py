"""How several learners, each with all members, make one step of every member.

A member's gradient is the sum over its shards in a binary tree whose shape depends on the number of
shards alone: shards 0 and 1, 2 and 3, then both sums, and so on. A learner sums what it has whole;
the member's owner sums the rest, takes the step and sends the weights to all. So the bytes are the
same for any number of learners. Traffic passes through main memory, by gloo.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from selfplay.errors import first_line
from selfplay.learning.statistics import StatsSum

Gradient: TypeAlias = list[Tensor | None]
"""By parameter of a member; None is zero."""
Node: TypeAlias = tuple[int, int]
"""Level and number in a tree of shards: (l, i) sums shards i 2^l to (i + 1) 2^l - 1."""
Homes: TypeAlias = Mapping[int, Sequence[int]]
"""By a member's place: for each of its shards the rank of the learner that has it, in order."""
_MEETING, _PATIENCE = timedelta(minutes=2), timedelta(hours=2)
"""How long learners may take to find each other, and one to hear of another: a death is noticed at
once, and whoever runs them ends the others."""
_LETTERS = 4096
"""Longest text, in bytes, that learners tell each other: a path."""
_MOST_NODES = 128
"""Above what two learners send each other of a member; the numbers of its messages end there."""


class PeerLost(Exception):
    """Another learner is gone; what happened there is not known here."""


@dataclass
class PartialSum:
    """What a learner has of a member's gradient: sums of neighbouring shards, and statistics."""

    nodes: dict[Node, Gradient] = field(default_factory=dict)
    sums: list[StatsSum] = field(default_factory=list)
    """Of each of its shards."""

    def add(self, number: int, gradient: Gradient, sums: StatsSum) -> None:
        """Add the next shard; two sums that make a larger one are added at once."""
        self.sums.append(sums)
        node = (0, number)
        while node[1] % 2 and (node[0], node[1] - 1) in self.nodes:
            gradient = added(self.nodes.pop((node[0], node[1] - 1)), gradient)
            node = (node[0] + 1, node[1] // 2)
        self.nodes[node] = gradient


def nodes_of(numbers: Sequence[int]) -> list[Node]:
    """Return the sums that a learner with these neighbouring shards has of a member."""
    partial = PartialSum()
    for number in numbers:
        partial.add(number, [], StatsSum())
    return list(partial.nodes)


def added(one: Gradient, other: Gradient) -> Gradient:
    """Return the sum of two gradients, in the place of the first."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if pairs:
        torch._foreach_add_([a for a, _ in pairs], [b for _, b in pairs])
    return [b if a is None else a for a, b in zip(one, other, strict=True)]


def total(nodes: dict[Node, Gradient], shards: int) -> Gradient:
    """Return the sum of all shards of a member from sums of neighbouring ones."""

    def of(level: int, number: int) -> Gradient:
        if (level, number) in nodes:
            return nodes.pop((level, number))
        left = of(level - 1, 2 * number)
        if (2 * number + 1) << (level - 1) >= shards:
            return left
        return added(left, of(level - 1, 2 * number + 1))

    return of((shards - 1).bit_length(), 0)


class Exchange:
    """What a learner sends to the others and hears of them; alone it does neither.

    rank: its number. machines: the name of each learner's. A member's owner is the learner whose
    number is the rest of its place divided by how many there are.
    """

    def __init__(self, rank: int = 0, machines: Sequence[str] = ("",), group: Any = None) -> None:
        self.rank, self.machines, self.group = rank, machines, group
        self.count = len(machines)

    def owner(self, place: int) -> int:
        """Return the rank of the learner that has a member's optimiser state."""
        return place % self.count

    def owned(self, members: int) -> list[int]:
        """Return the places, of so many, whose optimiser states are here."""
        return list(range(self.rank, members, self.count))

    def gather(
        self, partials: Mapping[int, PartialSum], homes: Homes, like: Mapping[int, list[Tensor]]
    ) -> dict[int, tuple[Gradient, StatsSum]]:
        """Send what belongs to others; return gradient and statistics of each owned member.

        like: by place, tensors of the shapes and on the devices of a gradient. Raises PeerLost.
        """
        sent = [
            (self._send(message, self.owner(place), place, number), message)
            for place, partial in sorted(partials.items())
            if self.owner(place) != self.rank
            for number, message in enumerate(_messages(partial, like[place]))
        ]
        gathered = {}
        for place, ranks in sorted(homes.items()):
            if self.owner(place) == self.rank:
                gathered[place] = self._gathered(place, ranks, partials.get(place), like[place])
        for work, _ in sent:
            _wait(work)
        return gathered

    def _gathered(
        self, place: int, ranks: Sequence[int], here: PartialSum | None, like: list[Tensor]
    ) -> tuple[Gradient, StatsSum]:
        """Return what all learners have of an owned member, each of them in its turn."""
        nodes: dict[Node, Gradient] = {}
        sums: list[StatsSum] = []
        for rank in dict.fromkeys(ranks):
            numbers = [number for number, of in enumerate(ranks) if of == rank]
            if rank == self.rank and here is not None:
                nodes |= here.nodes
                sums += here.sums
                continue
            rows = torch.empty(len(numbers), len(StatsSum().numbers()), dtype=torch.float64)
            self._receive(rows, rank, place, 0)
            sums += [StatsSum.of_numbers(row) for row in rows.tolist()]
            for i, node in enumerate(nodes_of(numbers), start=1):
                flat = torch.empty(sum(t.numel() for t in like), dtype=like[0].dtype)
                self._receive(flat, rank, place, i)
                nodes[node] = list(_unpacked(flat, like))
        gradient, first = total(nodes, len(ranks)), sums[0]
        for more in sums[1:]:
            first.add(more)
        return gradient, first

    @torch.no_grad()
    def share(self, place: int, tensors: list[Tensor]) -> None:
        """Give all learners these tensors as the member's owner has them. Raises PeerLost."""
        if self.count == 1:
            return
        flat = _packed(tensors)
        _wait(self._begun(lambda: self.group.broadcast(flat, self.owner(place))))
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
        own = text.encode()
        letters[self.rank, : len(own)] = torch.tensor(list(own), dtype=torch.uint8)
        _wait(self._begun(lambda: self.group.allreduce([letters])))
        return [bytes(row.tolist()).rstrip(b"\0").decode() for row in letters]

    def _send(self, message: Tensor, rank: int, place: int, number: int) -> Any:
        return self._begun(lambda: self.group.send([message], rank, place * _MOST_NODES + number))

    def _receive(self, message: Tensor, rank: int, place: int, number: int) -> None:
        tag = place * _MOST_NODES + number
        _wait(self._begun(lambda: self.group.recv([message], rank, tag)))

    def _begun(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except RuntimeError as error:
            raise PeerLost(first_line(error)) from error


def _wait(work: Any) -> None:
    try:
        work.wait(_PATIENCE)
    except RuntimeError as error:
        raise PeerLost(first_line(error)) from error


def _messages(partial: PartialSum, like: list[Tensor]) -> list[Tensor]:
    """Return what the owner of a member is sent: statistics by shard, then each sum."""
    numbers = torch.tensor([sums.numbers() for sums in partial.sums], dtype=torch.float64)
    filled = [
        [torch.zeros_like(t) if g is None else g for g, t in zip(gradient, like, strict=True)]
        for gradient in partial.nodes.values()
    ]
    return [numbers, *map(_packed, filled)]


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


def open_group(
    address: str, store: tuple[str, int], rank: int, count: int, listener: socket.socket | None
) -> Any:
    """Return a gloo group of so many processes, which is not torch's default one.

    address: of this process, which others reach; gloo would take that of the machine's name. store:
    address and port of the first one's store. listener: the socket that listens there, in the first
    process alone, which must keep it open; torch's own store listens on all addresses.
    """
    distributed: Any = dist
    try:
        found = distributed.TCPStore(
            *store,
            is_master=listener is not None,
            master_listen_fd=None if listener is None else listener.fileno(),
            wait_for_workers=False,
            timeout=_MEETING,
        )
        gloo = distributed.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = _PATIENCE
        return gloo(found, rank, count, options)
    except RuntimeError as error:
        raise PeerLost(first_line(error)) from error
