"""What all commands share: one line for what a user can mend, quiet libraries, YAML files."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import yaml

from evals.errors import EngineStopped
from selfplay.errors import SelfplayError


@contextmanager
def one_line_errors(directory: Path | None = None) -> Iterator[None]:
    """Turn what a user can mend into one line and an exit code.

    1: the work was stopped, as by a full disk. 2: wrong usage. 130: interrupted.
    """
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        _stop(f"interrupted{_resume_hint(directory)}", 130)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or error}{where}{_resume_hint(directory)}", 1)
    except ValueError as error:
        if not isinstance(error, SelfplayError) and type(error) is ValueError:
            raise
        if isinstance(error, EngineStopped) or (
            not isinstance(error, SelfplayError) and isinstance(error.__cause__, OSError)
        ):
            # A part of ours that says in its own words what died, or what the system refused.
            _stop(f"{error}{_resume_hint(directory)}", 1)
        _stop(str(error), 2)


def _resume_hint(directory: Path | None) -> str:
    if directory is None or not (directory / "checkpoints").is_dir():
        return ""
    return f"; nothing is lost: go on with `selfplay resume {directory}`"


def _stop(message: str, code: int) -> None:
    line = " ".join(part.strip() for part in message.splitlines())
    click.echo(f"selfplay: {line}", err=True)
    sys.exit(code)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a configuration file; one that is no mapping is refused."""
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SelfplayError(f"cannot read {path} as YAML: {error}") from error
    if not isinstance(data, dict):
        raise SelfplayError(f"{path} is not a mapping of configuration keys")
    return data


def silence_transformers() -> None:
    """Keep the model library from drawing its own bars over ours."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    silent: Callable[[], None] = transformers.utils.logging.disable_progress_bar
    silent()
