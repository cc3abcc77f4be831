"""Rows from a file of the user's own (`--data`)."""

import hashlib
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evals.errors import EvalsError
from evals.sources.json_rows import parse_rows, read_bytes
from evals.sources.optional import optional
from evals.sources.source import Row, Source

_PARQUET = b"PAR1"


def read_file(path: Path) -> Source:
    """Read JSON, JSON Lines (plain or gzip) or parquet, whatever the name.

    JSON is read with `json`, not with `datasets`: Arrow holds neither integers of more than 64
    bits nor lists of mixed types, and HumanEval+ and MBPP+ have both. Parquet needs `datasets`.
    Raises EvalsError for a file that is missing, broken, or has no rows.
    """
    data = read_bytes(path)
    rows = _parquet(path) if data.startswith(_PARQUET) else parse_rows(data, str(path))
    if not rows:
        raise EvalsError(f"{path} holds no rows")
    return Source(rows, len(rows), hashlib.sha256(data).hexdigest(), "file", str(path))


def plain(value: Any) -> Any:
    """A value of Arrow as JSON has it: dates become ISO texts."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.isoformat() if isinstance(value, date) else value


def _parquet(path: Path) -> list[Row]:
    datasets = optional("datasets", f"to read parquet ({path})")
    with TemporaryDirectory() as cache:
        try:
            table = datasets.Dataset.from_parquet(str(path), cache_dir=cache, keep_in_memory=True)
        except Exception as error:  # pyarrow and datasets raise many kinds for a broken file
            reason = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
            raise EvalsError(f"{path}: broken parquet ({reason[0][:200]})") from None
        return [plain(dict(row)) for row in table]
