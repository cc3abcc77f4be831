"""Members laid out by their distances: in a row of neighbours, and on a map."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch

from lora_evo.linalg.thin import one_thread

Distances = Sequence[Sequence[float]]


@dataclass(frozen=True)
class PopulationMap:
    """Points in the plane whose distances come near to those of the members."""

    points: tuple[tuple[float, float], ...]
    shares: tuple[float, float]
    """What each axis holds of the variance, as far as a Euclidean space can show it."""


def neighbour_order(distances: Distances) -> list[int]:
    """Places of the members in an order that puts similar ones side by side.

    Average linkage (Sokal & Michener 1958): the two groups with the least mean distance are joined
    until one is left; of the four ways to join two rows, the one whose meeting ends are closest is
    taken. Ties go to the members named first, so that the order depends on the distances alone.
    """
    groups = [[place] for place in range(len(distances))]
    while len(groups) > 1:
        _, i, j = min(
            (_mean_between(distances, groups[i], groups[j]), i, j)
            for i, j in combinations(range(len(groups)), 2)
        )
        second = groups.pop(j)
        ways = [(a, b) for a in (groups[i], groups[i][::-1]) for b in (second, second[::-1])]
        left, right = min(ways, key=lambda way: distances[way[0][-1]][way[1][0]])
        groups[i] = left + right
    order = groups[0] if groups else []
    return order if not order or order[0] <= order[-1] else order[::-1]


def classical_map(distances: Distances) -> PopulationMap:
    """Classical multidimensional scaling to two axes (Torgerson 1952).

    The eigenvectors of -1/2 J D^2 J, with D^2 the squared distances and J the centring matrix,
    times the roots of their eigenvalues; shares are of the sum of the positive eigenvalues. The
    coordinate farthest from 0 is positive on each axis.
    """
    size = len(distances)
    squared = torch.tensor(distances, dtype=torch.float64) ** 2
    centring = torch.eye(size, dtype=torch.float64) - 1 / size
    with one_thread():
        values, vectors = torch.linalg.eigh(-0.5 * centring @ squared @ centring)
    largest = float(values[-1])
    total = math.fsum(value for value in values.tolist() if value > 1e-12 * largest)
    axes, shares = [], []
    for place in (-1, -2):
        value = float(values[place])
        value = value if value > 1e-12 * largest else 0.0
        axis = vectors[:, place] * math.sqrt(value)
        far = float(axis[int((axis.abs() > axis.abs().max() * (1 - 1e-9)).int().argmax())])
        axes.append((-axis if far < 0 else axis).tolist())
        shares.append(value / total if total else 0.0)
    return PopulationMap(tuple(zip(*axes, strict=True)), (shares[0], shares[1]))


def _mean_between(distances: Distances, first: list[int], second: list[int]) -> float:
    total = math.fsum(distances[i][j] for i in first for j in second)
    return total / (len(first) * len(second))
