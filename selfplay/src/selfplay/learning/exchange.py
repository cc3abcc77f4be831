"""Data-parallel updates: several learners, each with all members, exchange gradients by gloo.

A learner broadcasts each part of a member's gradient that it computed. All learners add the parts
in the order of the shards and take the same step, so the bytes are the same for any number of
learners. The data pass through main memory.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import timedelta
from functools import reduce
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
"""By a member's place: the ranks of the learners that computed the parts of its gradient, in the
order of addition. All shards of the first rank are one part; every other shard is a part."""
MEETING, PATIENCE = timedelta(minutes=5), timedelta(hours=2)
"""Longest time for learners to connect, and for one broadcast; a death is noticed at once."""


class PeerLost(EngineStopped):
    """The connection to another learner is lost; the cause is not known here."""


def add(one: Part, other: Part) -> Part:
    """Return the sum of two parts; the first is changed in place."""
    both = zip(one[0], other[0], strict=True)
    if pairs := [(a, b) for a, b in both if a is not None and b is not None]:
        torch._foreach_add_([a for a, _ in pairs], [b for _, b in pairs])
    one[1].add(other[1])
    return [b if a is None else a for a, b in zip(one[0], other[0], strict=True)], one[1]


class Exchange:
    """The connection of a learner to the others; by default there are none.

    rank: this learner's number; count: of learners; group: the gloo group.
    """

    def __init__(self, rank: int = 0, count: int = 1, group: Any = None) -> None:
        self.rank, self.count, self.group = rank, count, group

    def total(self, parts: Sequence[Part], ranks: Sequence[int], like: Sequence[Tensor]) -> Part:
        """Return gradient and statistics of a member, the same for every learner.

        parts: this learner's, in order. ranks: of the learners that have each part. like: tensors
        of the shapes and on the devices of a gradient. Raises PeerLost.
        """
        if self.count == 1:
            return reduce(add, parts)
        local = iter(parts)
        shared = (self._broadcast(r, next(local) if r == self.rank else None, like) for r in ranks)
        return reduce(add, shared)

    def _broadcast(self, rank: int, part: Part | None, like: Sequence[Tensor]) -> Part:
        """Send a part to all learners, or (None) receive the part of `rank`."""
        numbers = torch.tensor(astuple(part[1] if part else StatsSum()), dtype=torch.float64)
        if part is None:
            flat = torch.empty(sum(t.numel() for t in like), dtype=like[0].dtype)
        else:
            both = zip(part[0], like, strict=True)
            part = [torch.zeros_like(t) if g is None else g for g, t in both], part[1]
            flat = _pack([g for g in part[0] if g is not None])
        try:
            for tensor in (numbers, flat):
                self.group.broadcast(tensor, rank).wait(PATIENCE)
        except RuntimeError as error:
            raise PeerLost(f"lost the others ({first_line(error)})") from error
        pieces = zip(torch.split(flat, [t.numel() for t in like]), like, strict=True)
        return part or (
            [p.view(t.shape).to(t.device) for p, t in pieces],
            StatsSum(*numbers.tolist()),
        )


def _pack(tensors: Sequence[Tensor]) -> Tensor:
    """Return all tensors flattened into one in main memory, pinned for a GPU."""
    flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
    if flat.device.type == "cpu":
        return flat
    return torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True).copy_(flat)


def open_store(address: str) -> tuple[Any, tuple[str, int]]:
    """Return a store through which learners connect while it exists, and its address and port.

    address: of this machine; torch itself would listen on all addresses.
    """
    listener = socket.create_server((address, 0))
    place = address, listener.getsockname()[1]
    return _store(place, listener.detach()), place


def open_group(address: str, store: tuple[str, int], rank: int, count: int) -> Any:
    """Return a gloo group of `count` processes, separate from torch's default group.

    address: of this process, for the others; gloo would take that of the machine's name. store:
    address and port of the store. Raises PeerLost.
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
