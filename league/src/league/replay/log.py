"""A league's own log, read once to be played again."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from league.config import LeagueConfig
from league.storage.journal import parse, read_lines
from league.storage.settings import EVENTS, check_exists, read_settings


@dataclass(frozen=True)
class Log:
    """A league's settings and events. Raises UnreadableLeague for damaged files."""

    config: LeagueConfig
    events: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> "Log":
        """Return the log of a league's directory; a torn last line is left out."""
        root = Path(directory)
        check_exists(root)
        _schema, config = read_settings(root)
        path = root / EVENTS
        lines = read_lines(path)
        return cls(config, tuple(parse(x, f"{path} line {i + 1}") for i, x in enumerate(lines)))
