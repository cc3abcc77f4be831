"""Faults put in on purpose: killed and stopped processes, full pipes, doors closed in use."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import pytest
from meanwhile import executing_fails

import code_verifier.sandbox
from code_verifier import Limits, Sandbox, SandboxUnavailable, ScriptRunner, Task, ordered_map
from code_verifier.process import Process

IDENTITY = "def f(x):\n    return x"
SPIN = "def f(x):\n    while True: pass"
SLOW = "def f(n):\n    total = 0\n    for i in range(n): total += i\n    return total"
N = 20_000_000
PATIENCE_S = 3600.0
"""Ends a test that hangs; no sound test may come near."""
LONG = Limits(wall_s=3600.0, cpu_s=3600.0)


def stat(pid):
    """The fields of /proc/PID/stat after the command, or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def alive(pid):
    """Whether the process exists; no one reaps orphans in some containers, so no zombies."""
    fields = stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def below(roots):
    """Living descendants of the given processes."""
    parents = {int(name): stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    found, waiting = [], list(roots)
    while waiting:
        parent = waiting.pop()
        mine = [pid for pid, fields in parents.items() if fields and int(fields[1]) == parent]
        found += [pid for pid in mine if alive(pid)]
        waiting += mine
    return found


def eventually(condition, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def busy(servers):
    """The children that run a program: those that have used processor time."""
    return [pid for pid in below(servers) if int((stat(pid) or ["0"] * 12)[11]) >= 5]


def busy_child(servers):
    """The first child that is found busy."""
    found = []
    assert eventually(lambda: found.extend(busy(servers())) or found), "no program is running"
    return found[0]


@pytest.fixture(scope="module")
def one():
    with Sandbox(workers=1, limits=LONG) as opened:
        yield opened


@pytest.fixture
def threads():
    executor = ThreadPoolExecutor(4)
    yield executor
    executor.shutdown(wait=False, cancel_futures=True)


def ending(future):
    """The status of the verdict, or `closed`."""
    try:
        return future.result(timeout=PATIENCE_S).status
    except SandboxUnavailable as error:
        return "closed" if "closed" in str(error) else str(error)


def test_a_killed_child_ends_its_program_only(one, threads):
    future = threads.submit(one.run, SPIN, "1")
    child = busy_child(one.pids)
    os.kill(child, signal.SIGKILL)
    verdict = future.result(timeout=PATIENCE_S)
    assert verdict.status in ("memory", "sandbox_error")
    assert verdict.output is None
    assert not alive(child)
    assert one.run(IDENTITY, "2").output == "2"


def test_a_program_survives_its_server(one, threads):
    future = threads.submit(one.run, SLOW, str(N))
    child = busy_child(one.pids)
    servers = one.pids()
    for server in servers:
        os.kill(server, signal.SIGKILL)
    assert future.result(timeout=PATIENCE_S).output == str(N * (N - 1) // 2)
    assert eventually(lambda: not alive(child)), "the child outlived its server"
    assert eventually(lambda: not set(servers) & set(one.pids()))


def test_killed_servers_give_no_grade(one, threads):
    """The servers are killed under a program for as long as it is judged."""
    spin = "def f(x):\n    while x == 2: pass\n    return x"
    examples = Task("code_f", "", inputs=("1", "2", "3"), outputs=("1", "2", "3"), visible=1)
    for task, answer in ((Task("code_i", spin, output="2"), "2"), (examples, spin)):
        future = threads.submit(one.grade, task, answer)
        while not future.done():
            time.sleep(0.05)
            if busy(one.pids()):
                for pid in one.pids():
                    with suppress(ProcessLookupError):  # it was about to end
                        os.kill(pid, signal.SIGKILL)
        found = future.result()
        assert (found.score, found.status, found.judged) == (0.0, "sandbox_error", False)
        assert (found.passed, found.total) == (None, None)
    assert one.grade(Task("code_i", IDENTITY, output="9"), "9").score == 1.0


@pytest.mark.parametrize("many", ["run_many", "check_many"])
def test_killing_all_servers_loses_and_reorders_nothing(many):
    pairs = [("def f(x):\n    return [x, -x]", str(i)) for i in range(100)]
    outputs = []
    with Sandbox(workers=2) as sandbox:
        for number, verdict in enumerate(getattr(sandbox, many)(pairs)):
            outputs.append(verdict.output)
            if number in (20, 50, 80):
                for server in sandbox.pids():
                    os.kill(server, signal.SIGKILL)
    assert outputs == [f"[{i}, {-i}]" for i in range(100)]


CALLER = """
import signal
from code_verifier import Limits, Sandbox
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
sandbox = Sandbox(workers=2, limits=Limits(wall_s=3600, cpu_s=3600))
sandbox.check("def f(x): return x", "1")
print(*sandbox.pids(), flush=True)
pairs = [("def f(x):\\n    while True: pass", str(i)) for i in range(8)]
for verdict in sandbox.check_many(pairs):
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_with_the_caller(number):
    command = [sys.executable, "-c", CALLER]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as caller:
        servers = [int(word) for word in caller.stdout.readline().split()]
        busy_child(lambda: servers)
        family = below([caller.pid])
        assert set(servers) <= set(family)
        caller.send_signal(number)
        try:
            assert caller.wait(timeout=PATIENCE_S) != 0
        finally:
            caller.kill()
    assert eventually(lambda: not any(map(alive, family))), "processes stayed behind"


def test_a_ctrl_c_that_does_not_wake_the_caller_ends_its_wait():
    """As one does that comes just before the wait begins, or that another thread is given."""
    ended, late = threading.Event(), []

    def interrupt(item):
        time.sleep(0.5)  # the caller waits by now, as a rule
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not ended.wait(PATIENCE_S):
            late.append(item)

    with pytest.raises(KeyboardInterrupt):
        next(ordered_map(interrupt, [1], 1))
    ended.set()
    assert not late


def test_a_stopped_child_is_a_timeout(threads):
    with Sandbox(workers=1, limits=Limits(wall_s=3.0, cpu_s=60.0)) as sandbox:
        future = threads.submit(sandbox.run, SPIN, "1")
        while not (children := busy(sandbox.pids())):
            if future.done():  # its time was over before this process came to look
                future = threads.submit(sandbox.run, SPIN, "1")
        with suppress(ProcessLookupError):
            os.kill(children[0], signal.SIGSTOP)
        assert future.result(timeout=PATIENCE_S).status == "timeout"
        assert not alive(children[0])
        assert eventually(lambda: sandbox.run(IDENTITY, "2").output == "2")


def test_a_stopped_server_is_replaced(threads, monkeypatch):
    """Also when the request is larger than the pipe, so that it cannot even be sent."""
    monkeypatch.setattr(code_verifier.sandbox, "_GRACE_S", 1.0)

    def stop_and_run(size):
        limits = Limits(wall_s=0.5, cpu_s=0.5, program_chars=2_000_000)
        with Sandbox(workers=1, limits=limits) as sandbox:
            assert eventually(lambda: sandbox.run(IDENTITY, "1").ok)
            servers = sandbox.pids()
            for server in servers:
                os.kill(server, signal.SIGSTOP)
            program = f"{IDENTITY}  # {'x' * size}"
            answered = eventually(lambda: sandbox.run(program, "2").output == "2")
            return answered, [pid for pid in servers if alive(pid)]

    assert list(threads.map(stop_and_run, (10, 1_000_000))) == [(True, [])] * 2


def test_the_largest_texts_pass_both_ways():
    limits = Limits(60.0, 60.0, 1024, 1_000_000, 1_000_000, 1_000_000)
    with Sandbox(workers=2, limits=limits) as sandbox:
        text = repr("a" * 900_000)
        assert sandbox.run(IDENTITY, text).output == text
        assert sandbox.check("def f(n):\n    return 'b' * n", "999998").status == "ok"
        assert sandbox.run("def f(n):\n    return 'b' * n", "999999").status == "too_long"


STOPPED_CALLER = """
from code_verifier import Limits, Sandbox
with Sandbox(workers=1, limits=Limits(60, 60, output_chars=500_000)) as sandbox:
    sandbox.run("def f(x): return x", "1")
    print("ready", flush=True)
    wanted = repr("a" * 400_000)
    verdicts = sandbox.run_many([("def f(n): return 'a' * n", "400000")] * 6)
    assert all(verdict.output == wanted for verdict in verdicts)
"""


def test_results_wait_for_a_caller_that_does_not_read():
    command = [sys.executable, "-c", STOPPED_CALLER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout.readline() == "ready\n"
        for _ in range(3):
            caller.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            caller.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        assert caller.wait(timeout=PATIENCE_S) == 0


def test_closing_in_use_ends_the_programs(threads):
    sandbox = Sandbox(workers=2, limits=LONG)
    futures = [threads.submit(sandbox.run, SPIN, str(i)) for i in range(4)]
    busy_child(sandbox.pids)
    family = sandbox.pids() + below(sandbox.pids())
    sandbox.close()
    endings = {ending(future) for future in futures}
    assert endings <= {"closed", "sandbox_error"}
    assert eventually(lambda: not any(map(alive, family)))
    assert sandbox.pids() == []
    with pytest.raises(SandboxUnavailable, match="closed"):
        sandbox.run(IDENTITY, "1")


def test_a_stream_left_half_way_stops_working(one):
    def forever():
        while True:
            yield IDENTITY, "1"

    stream = one.run_many(forever())
    for _ in range(5):
        assert next(stream).ok
    del stream
    gc.collect()

    def working():
        names = [thread.name for thread in threading.enumerate()]
        return [name for name in names if name.startswith("code-v")]

    assert eventually(lambda: not working())
    assert one.run(IDENTITY, "3").output == "3"


HOSTILE = [
    ("timeout", SPIN, "1"),
    ("memory", "def f(x):\n    return [0] * 10**9", "1"),
    ("exception", "def f(x):\n    return 1 / 0", "1"),
    ("exception", "def f(x):\n    return f(x)", "1"),
    ("exception", "def f(x):\n    raise SystemExit", "1"),
    ("too_long", "def f(x):\n    return 'a' * 20000", "1"),
    ("syntax_error", "def f(x:", "1"),
    ("not_literal", "def f(x):\n    return f", "1"),
]


def test_what_a_killed_child_left_of_its_program_is_no_order(monkeypatch):
    """The child is killed when it has read a part of a program, and its caller is slow."""

    def write(self, body, deadline, whole=Process._write):
        if self._profile.kind == "strict":
            monkeypatch.undo()
            whole(self, body[: 1 << 17], deadline)
            assert eventually(lambda: ioctl(self._in, FIONREAD, bytes(4)) == bytes(4))
            (child,) = below([self.pid])
            os.kill(child, signal.SIGKILL)
            assert eventually(lambda: not stat(child))  # its server has waited for it
            body = body[1 << 17 :]
        whole(self, body, deadline)

    program = f"{IDENTITY}\nTEXT = {'y' * (1 << 18)!r}"
    with Sandbox(workers=1, limits=Limits(3600.0, 3600.0, program_chars=1 << 20)) as sandbox:
        assert sandbox.run(IDENTITY, "0").ok
        monkeypatch.setattr(Process, "_write", write)
        for text in "123":
            assert sandbox.run(program, text).output == text


def test_two_hundred_programs_a_round_leave_nothing_behind():
    def open_files(*pids):
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), *pids)]

    gc.collect()  # sandboxes of other tests must not come to their ends in between
    before = open_files()
    with Sandbox(workers=2, limits=Limits(wall_s=20.0, cpu_s=0.1)) as sandbox:
        wanted = [*HOSTILE, *[("ok", IDENTITY, str(i)) for i in range(192)]]
        counts = []
        for _ in range(2):
            verdicts = list(sandbox.run_many((program, given) for _, program, given in wanted))
            assert [verdict.status for verdict in verdicts] == [status for status, *_ in wanted]
            counts.append((open_files(*sandbox.pids()), len(sandbox.pids())))
        assert {count for _, count in counts} <= {2, 3, 4, 5}  # servers, and three readers
        assert {len(files) - 1 for files, _ in counts} == {count for _, count in counts}
        assert {number for files, _ in counts for number in files[1:]} == {3}
        assert len({files[0] - 3 * count for files, count in counts}) == 1
        ours = {os.getpid(), *sandbox.pids()}

        def zombies():
            found = [stat(int(name)) for name in os.listdir("/proc") if name.isdigit()]
            return [f for f in found if f and f[0] == "Z" and int(f[1]) in ours]

        # a server answers first and reaps at once after it, so the last child may be seen dead
        assert eventually(lambda: not zombies()), zombies()
    assert open_files() == before
    assert not any(map(alive, ours - {os.getpid()}))


def test_a_sandbox_that_judges_nothing_is_found_by_its_test(one, monkeypatch):
    tight = Limits(wall_s=0.001, cpu_s=0.001, output_chars=1, program_chars=1)
    with ScriptRunner() as runner, Sandbox(workers=1, limits=tight) as narrow:
        for sandbox in (one, runner, narrow):  # refused by narrow limits is judged, too
            sandbox.self_test()
        executing_fails(monkeypatch)
        for sandbox in (one, runner):
            with pytest.raises(SandboxUnavailable, match=r"lost: it ended; type `code-verifier do"):
                sandbox.self_test()
