"""The command, run in this process."""

from click.testing import CliRunner

from league.cli import main


def run(*words, code=0):
    """Run `league` with these words; it must end with this exit code, in an error of one line."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert (done.exit_code, done.stderr.count("\n")) == (code, code != 0), done.output
    return done
