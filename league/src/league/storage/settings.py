"""The settings file of a league, and the names of the files beside it."""

from pathlib import Path

from league.config import LeagueConfig
from league.errors import LeagueError, UnreadableLeague
from league.storage.files import SCHEMA, canonical, read_object

SETTINGS = "league.json"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.json"
LOCK = "league.lock"


def check_exists(directory: Path) -> None:
    """Raise LeagueError if there is no league in a directory."""
    if not (directory / SETTINGS).exists():
        raise LeagueError(f"no league in {directory}; expected a directory with {SETTINGS}")


def read_settings(directory: Path) -> tuple[int, LeagueConfig]:
    """Return schema and config of the league in a directory; UnreadableLeague if damaged."""
    path = directory / SETTINGS
    settings = read_object(path)
    try:
        return settings["schema"], LeagueConfig.from_dict(settings["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableLeague(f"{path} has bad settings: {error}") from error


def settings_line(config: LeagueConfig) -> bytes:
    """Return the content of a settings file."""
    return canonical({"schema": SCHEMA, "config": config.to_dict()})
