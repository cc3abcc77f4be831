"""Whole files, written so that a reader sees the old one or the new one and nothing between."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from league.errors import UnreadableLeague

SCHEMA = 1


def canonical(data: object) -> bytes:
    """Return one line of JSON, equal for equal data; NaN and infinity are refused."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def write_atomically(path: Path, content: bytes) -> None:
    """Write next to the target, sync, and rename; on failure the target is untouched."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of this or an older schema, or raise UnreadableLeague."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnreadableLeague(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise UnreadableLeague(f"{path} is not a league file: it has no whole-number 'schema'")
    if data["schema"] > SCHEMA:
        raise UnreadableLeague(
            f"{path} has schema {data['schema']}, this version reads up to {SCHEMA}; "
            "upgrade populab-league"
        )
    return data
