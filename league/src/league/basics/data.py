"""Names for the types of arrays, whose shapes the docstrings give, and results as plain data."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

Cells = tuple[tuple[float | None, ...], ...]
"""A matrix; None where nothing is known."""


@dataclass(frozen=True)
class PlainData:
    """A frozen dataclass of plain fields, or of such dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dict, nested dataclasses as dicts."""
        return asdict(self)
