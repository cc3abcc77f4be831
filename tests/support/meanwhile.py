"""What goes on in a thread while a block runs: a server serves, processes are killed."""

import threading
from contextlib import contextmanager

from code_verifier.pool import Pool
from code_verifier.process import _BOOTSTRAP, ProcessLost


@contextmanager
def serving(server):
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def dying(pool):
    """Kill the processes of a pool of code_verifier as soon as they have started."""
    over = threading.Event()

    def kill():
        while not over.wait(0.01):
            for process in list(pool._all):
                if process.layers:  # it has started
                    process.end()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def executing_fails(monkeypatch, mark=b""):
    """Lose the process of every execution of a program that holds `mark`."""
    ask = Pool.ask

    def fails(self, profile, order, task, grace_s):
        if profile.kind != "reader" and mark in task:
            raise ProcessLost("it ended")
        return ask(self, profile, order, task, grace_s)

    monkeypatch.setattr(Pool, "ask", fails)


def serving_after(monkeypatch, code):
    """Run this code in every server before it serves; `m` is `jail.server`."""
    start = _BOOTSTRAP.replace("m.main()", f"exec({code!r}); m.main()")
    monkeypatch.setattr("code_verifier.process._BOOTSTRAP", start)
