"""A process forked from this one, which has everything loaded that a new one would load first."""

import gc
import os
import signal
import sys
import threading
import traceback
import warnings

from selfplay import step
from selfplay.cli import main


class Forked:
    """Calls `act()` in a session of its own; as `subprocess.Popen`, as far as tests need it."""

    def __init__(self, act):
        self.returncode = None
        read, write = os.pipe()
        sys.__stdout__.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pytest-xdist has a thread
            self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            _become(act, write)
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


def start(at, *arguments):
    """Start a command of selfplay; return once it waits in that step."""

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


def _become(act, output):
    """End this process as an interpreter ends that did nothing but `act()`."""
    status = 1
    try:
        os.setsid()
        for handle in (1, 2):
            os.dup2(output, handle)
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
