"""Python in a process of its own."""

import os
import subprocess
import sys


def python(*words: object, cwd: object = None, **variables: str) -> str:
    """Run Python on these words, which must end well; return what it prints.

    variables: set in its environment.
    """
    command, env = [sys.executable, *map(str, words)], os.environ | variables
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
