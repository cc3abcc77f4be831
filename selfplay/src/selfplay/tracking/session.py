"""Reporting a run to its trackers: a tracker that fails is left out, and the run goes on."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import click
import msgspec

from evals.atomic import write_text
from selfplay.config.run_config import RunConfig
from selfplay.errors import ConfigError
from selfplay.tracking.trackers import OPENERS, Reported, Tracker

NAMES = "trackers.json"
"""In the run directory: by which each tracker finds the run again."""


class Trackers:
    """The open trackers of a run; none until they are opened."""

    def __init__(self) -> None:
        self._open: dict[str, Tracker] = {}

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Give all trackers the numbers of a step."""
        for name, tracker in list(self._open.items()):
            self._try(name, tracker.log, values, step)

    def open(self, config: RunConfig, home: Path, step: int) -> None:
        """Open those that the configuration names, as of this step."""
        path = home / NAMES
        known = json.loads(path.read_text()) if path.is_file() else {}
        told = msgspec.to_builtins(asdict(config))
        for name in config.report_to:
            run = Reported(home, told, step, known.get(name))
            self._try(name, self._start, name, run)
        names = {name: t.name for name, t in self._open.items() if t.name}
        if names:
            write_text(path, json.dumps(known | names) + "\n")

    def close(self) -> None:
        """Let all trackers write what they hold."""
        for name, tracker in list(self._open.items()):
            self._try(name, tracker.close)
        self._open = {}

    def _start(self, name: str, run: Reported) -> None:
        _, start = OPENERS[name]
        self._open[name] = start(run)

    def _try(self, name: str, act: Callable[..., None], *arguments: object) -> None:
        try:
            act(*arguments)
        except Exception as error:  # whatever another package raises: it is not the run's fault
            line = (str(error) or type(error).__name__).splitlines()[0]
            click.echo(f"{name} failed and is left out from now on: {line}", err=True)
            self._open.pop(name, None)


def require_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError for a tracker whose package is not installed."""
    for name in names:
        package, _ = OPENERS[name]
        if find_spec(package) is None:
            raise ConfigError(
                f"report_to names {name}, which is not installed; type: pip install {package}"
            )


@contextmanager
def opened_trackers(config: RunConfig, home: Path, step: int) -> Iterator[Trackers]:
    """The run's trackers, open within the block."""
    trackers = Trackers()
    trackers.open(config, home, step)
    try:
        yield trackers
    finally:
        trackers.close()
