"""A process forked from this one, which has everything loaded that a new one would load first."""

import gc
import os
import runpy
import signal
import sys
import tempfile
import threading
import traceback
import warnings

from selfplay import step
from selfplay.cli import main


class Forked:
    """Calls `act()` in a session of its own; as `subprocess.Popen`, as far as tests need it.

    errors: the file of its standard error, by default its standard output.
    """

    def __init__(self, act, errors=None):
        self.returncode = None
        read, write = os.pipe()
        sys.__stdout__.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pytest-xdist has a thread
            self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            _become(act, write, write if errors is None else errors.fileno())
        os.close(write)
        self.stdout = os.fdopen(read)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def communicate(self):
        """Wait for the end; return what was said and not yet read, and None."""
        with self.stdout:
            said = self.stdout.read()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return said, None


def start(at, _environment, *arguments):
    """Start a command of selfplay; return once it waits in that step.

    `standing.start` does the same in a new interpreter.
    """

    def act():
        solve = step.solve

        def waiting(run, verified, number):
            if number == at:
                print("here")
                threading.Event().wait()
            return solve(run, verified, number)

        step.solve = waiting
        main([str(word) for word in arguments])

    process = Forked(act)
    said = ""
    for line in process.stdout:
        said += line
        if line == "here\n":
            return process
    raise AssertionError(f"{said}{process.communicate()}: {process.returncode}")


def python(*words, cwd=None):
    """Run a script or, after `-m`, a module, as `programs.python` does in a new interpreter."""
    words = [str(word) for word in words]

    def act():
        if cwd:
            os.chdir(cwd)
        if words[0] == "-m":
            sys.path.insert(0, os.getcwd())
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(words[0]))
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")

    with tempfile.TemporaryFile("w+") as errors:
        process = Forked(act, errors)
        said, _ = process.communicate()
        errors.seek(0)
        assert process.returncode == 0, errors.read()[-3000:]
    return said


def _become(act, output, errors):
    """End this process as an interpreter ends that did nothing but `act()`."""
    status = 1
    try:
        os.setsid()
        for stream, handle in ((output, 1), (errors, 2)):
            os.dup2(stream, handle)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)
        sys.unraisablehook = sys.__unraisablehook__
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        try:
            act()
            status = 0
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            status = end.code if isinstance(end.code, int) else bool(end.code)
        warnings.simplefilter("default")
        gc.collect()  # what is left open is said
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
