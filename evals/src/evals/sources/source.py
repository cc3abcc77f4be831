"""The rows of a benchmark, and where they came from."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Rows in their order, as they were published.

    count: number of rows. sha256: of the file's bytes as stored, or, when the rows did not come
    from one file, of the rows (`rows_sha256`); `hashed` says which. origin: a file's path or a hub
    address. notes: what a reader should know, such as a count that is not the official one.
    """

    rows: Sequence[Row]
    count: int
    sha256: str
    hashed: str
    origin: str
    notes: tuple[str, ...] = ()

    @property
    def content_hash(self) -> str:
        """The hash with its kind, for the settings of a run."""
        return f"sha256 of the {self.hashed}: {self.sha256}"


def rows_sha256(rows: Sequence[Row]) -> str:
    """SHA-256 of the rows as JSON Lines with sorted keys: the same for every file format."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    return digest.hexdigest()
