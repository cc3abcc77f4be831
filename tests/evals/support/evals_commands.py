"""The command as a person types it, and the files it takes."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from evals.cli import main


def run(*arguments: object) -> Result:
    """Run a command that ends by itself or by an exit code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def fails(code: int, message: str, *arguments: object) -> None:
    """Run a command that must end so."""
    result = run(*arguments)
    assert (result.exit_code, message in result.stderr) == (code, True), result.output
    assert "Traceback" not in result.output


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON Lines; return the path."""
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
