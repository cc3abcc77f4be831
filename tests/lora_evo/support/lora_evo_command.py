"""The command, run in this process."""

from click.testing import CliRunner

from lora_evo.cli import main


def call(*words, code=0):
    """Run `lora-evo` with these words; it must end with this exit code and no traceback."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None)
    return result
