"""A graph laid out in layers, with few crossings and short edges.

An edge over several layers gets a bend in each layer between, shared by all edges from one node,
so that it runs between the nodes. The order within a layer comes from sweeps of the barycentre
method (Sugiyama, Tagawa & Toda 1981); places are the least-squares nearest to the middle of the
neighbours that keep the order and the distances (isotonic regression, by pooling neighbours).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_SWEEPS = 12
_BEND = 0.3

# A node by its name; a bend by the name of the node it comes from and its layer.
Point = tuple[str, int]


@dataclass(frozen=True)
class Placement:
    """Places within layers, from 0: nodes are at least 1 apart, bends may be closer."""

    nodes: Mapping[str, float]
    bends: Mapping[Point, float]


def placement(layers: Mapping[str, int], parents: Mapping[str, Sequence[str]]) -> Placement:
    """Lay out a graph; the result depends on the graph alone.

    `layers` maps nodes to layers, `parents` nodes to nodes of lower layers.
    """
    above: dict[Point, list[Point]] = {(node, layer): [] for node, layer in layers.items()}
    for node in sorted(parents):
        for parent in parents[node]:
            last = (parent, layers[parent])
            for layer in range(layers[parent] + 1, layers[node]):
                above.setdefault((parent, layer), [last])
                last = (parent, layer)
            above[node, layers[node]].append(last)
    below: dict[Point, list[Point]] = {point: [] for point in above}
    rows: dict[int, list[Point]] = {}
    for point in sorted(above):
        rows.setdefault(point[1], []).append(point)
        for parent_point in above[point]:
            below[parent_point].append(point)
    sizes = {point: 1.0 if layers[point[0]] == point[1] else _BEND for point in above}
    at = {point: float(place) for row in rows.values() for place, point in enumerate(row)}
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in sorted(rows, reverse=near is below):
            wish = {point: _middle(at, near[point], at[point]) for point in rows[layer]}
            rows[layer].sort(key=lambda point: (wish[point], at[point], point))
            spread = _apart([(wish[point], sizes[point]) for point in rows[layer]])
            at.update(zip(rows[layer], spread, strict=True))
    start = min((at[point] for point, size in sizes.items() if size == 1.0), default=0.0)
    return Placement(
        {node: at[node, layer] - start for node, layer in layers.items()},
        {point: at[point] - start for point, size in sizes.items() if size != 1.0},
    )


def _middle(at: Mapping[Point, float], neighbours: Iterable[Point], own: float) -> float:
    found = [at[point] for point in neighbours]
    return sum(found) / len(found) if found else own


def _apart(wishes: Sequence[tuple[float, float]]) -> list[float]:
    """The nearest places to ascending wishes (wish, size) that leave room for half of each size."""
    offsets: list[float] = []
    for place, (_, size) in enumerate(wishes):
        before = offsets[-1] + wishes[place - 1][1] / 2 + size / 2 if place else 0.0
        offsets.append(before)
    blocks: list[tuple[float, int]] = []
    for offset, (wish, _) in zip(offsets, wishes, strict=True):
        total, count = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            earlier, members = blocks.pop()
            total, count = total + earlier, count + members
        blocks.append((total, count))
    levels = [total / count for total, count in blocks for _ in range(count)]
    return [offset + level for offset, level in zip(offsets, levels, strict=True)]
