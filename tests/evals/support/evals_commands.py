"""The command as a person types it."""

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
