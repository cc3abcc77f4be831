"""The file of a page."""

from pathlib import Path

from league.basics.errors import LeagueError
from league.events.files import EVENTS, LOCK, SETTINGS, SNAPSHOT, write_atomically

_OWN = (SETTINGS, EVENTS, SNAPSHOT, LOCK)


def save(html: str, path: Path) -> None:
    """Write a page. Raises LeagueError if the path is a folder, has none, or is a league's file."""
    if path.is_dir() or not path.parent.is_dir():
        found = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise LeagueError(f"cannot write {path}: {found}; name a file in a folder that exists")
    if path.name in _OWN and (path.parent / SETTINGS).exists():
        raise LeagueError(f"{path} belongs to a league; name another file, such as report.html")
    content = html.encode()
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a terminal cannot be renamed over
    else:
        write_atomically(path, content)
