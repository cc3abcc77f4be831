"""The cheapest one-to-one assignment, by shortest augmenting paths (Jonker and Volgenant, 1987)."""

import numpy as np

from league.basics.data import Floats, Ints


def assign(cost: Floats) -> Ints:
    """Return for each row its column so that the sum of costs is least; shape [n], n rows.

    cost: finite, shape [n, m] with n <= m. Takes O(n² m) time.
    """
    rows, columns = cost.shape
    row_price = np.zeros(rows + 1)
    column_price = np.zeros(columns + 1)
    owner = np.zeros(columns + 1, dtype=np.int64)  # the 1-based row of each 1-based column
    for row in range(1, rows + 1):
        owner[0] = row
        column = 0
        least = np.full(columns + 1, np.inf)
        came_from = np.zeros(columns + 1, dtype=np.int64)
        used = np.zeros(columns + 1, dtype=bool)
        while owner[column]:
            used[column] = True
            current = owner[column]
            reduced = np.full(columns + 1, np.inf)
            reduced[1:] = cost[current - 1] - row_price[current] - column_price[1:]
            better = (reduced < least) & ~used
            least[better] = reduced[better]
            came_from[better] = column
            column_next = int(np.argmin(np.where(used, np.inf, least)))
            delta = least[column_next]
            row_price[owner[used]] += delta
            column_price[used] -= delta
            least[~used] -= delta
            column = column_next
        while column:
            previous = int(came_from[column])
            owner[column] = owner[previous]
            column = previous
    result = np.zeros(rows, dtype=np.int64)
    result[owner[1:][owner[1:] > 0] - 1] = np.flatnonzero(owner[1:] > 0)
    return result
