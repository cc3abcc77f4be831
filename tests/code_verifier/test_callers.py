"""Callers of every make: forked, spawned, threaded, and with odd surroundings."""

import importlib.util
import pickle

import pytest
from programs import python

from code_verifier import Comparison, Limits, Sandbox

IDENTITY = "def f(x):\n    return x"
SPIN = "def f(x):\n    while True: pass"

HEAD = """
import os, signal, sys, threading, time
from code_verifier import Limits, Sandbox
SQUARE = "def f(x):\\n    return x * x"
SPIN = "def f(x):\\n    while True: pass"
"""


def runs(script, folder, *options):
    """The script ends by itself, with exit code 0, and prints `done`."""
    path = folder / "caller.py"
    path.write_text(HEAD + script)
    assert python(*options, path, cwd=folder).split()[-1:] == ["done"]


def test_a_pickled_sandbox_opens_with_the_same_settings():
    limits = Limits(wall_s=7.0, output_chars=5)
    comparison = Comparison(types=False)
    with Sandbox(workers=1, limits=limits, runs=3, comparison=comparison) as first:
        assert first.run(IDENTITY, "1").ok
        with pickle.loads(pickle.dumps(first)) as second:
            assert (second.workers, second.limits, second.runs) == (1, limits, 3)
            assert second.comparison == comparison
            assert second.check(IDENTITY, "12345").runs == 3
            assert second.run(IDENTITY, "123456").status == "too_long"
            assert not set(second.pids()) & set(first.pids())
        assert first.run(IDENTITY, "2").output == "2"


FORK_IN_USE = """
stop = False
sandbox = Sandbox(workers=2, limits=Limits(60, 60))
answers = []

def hammer(number):
    while not stop:
        answers.append(sandbox.run(SQUARE + "\\n" * number, str(number)).output == str(number ** 2))

threads = [threading.Thread(target=hammer, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
codes = []
for i in range(FORKS):
    pid = os.fork()
    if pid == 0:
        good = sandbox.run(SQUARE, "9").output == "81" and sandbox.check(SQUARE, "3").output == "9"
        sandbox.close()
        os._exit(0 if good else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop = True
for thread in threads:
    thread.join()
assert codes == [0] * FORKS, codes
assert answers and all(answers)
sandbox.close()
print("done")
"""


@pytest.mark.parametrize("forks", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_a_fork_in_use_gets_servers_of_its_own(tmp_path, forks):
    runs(FORK_IN_USE.replace("FORKS", str(forks)), tmp_path, "-Wignore::DeprecationWarning")


POOL = """
import multiprocessing
sandbox = Sandbox(workers=1, limits=Limits(60, 60))

def work(number):
    return sandbox.run(SQUARE, str(number)).output, os.getpid(), sandbox.pids()

if __name__ == "__main__":
    mine = work(1)[2]
    context = multiprocessing.get_context(METHOD)
    with context.Pool(2) as pool:
        found = pool.map(work, range(20), chunksize=1)
        assert [output for output, _, _ in found] == [str(i * i) for i in range(20)], found
        assert not any(set(pids) & set(mine) for _, _, pids in found)
    assert work(7)[0] == "49" and sandbox.pids() == mine
    sandbox.close()
    print("done")
"""


@pytest.mark.parametrize(
    "method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)]
)
def test_pools_of_processes(tmp_path, method):
    runs(POOL.replace("METHOD", repr(method)), tmp_path, "-Wignore::DeprecationWarning")


LOADER = """
from torch.utils.data import DataLoader, Dataset

class Judged(Dataset):
    def __init__(self):
        self.sandbox = Sandbox(workers=1, limits=Limits(60, 60))

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return int(self.sandbox.check(SQUARE, str(index)).output)

if __name__ == "__main__":
    data = Judged()
    assert data[3] == 9
    loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=METHOD)
    for _ in range(2):
        assert [int(x) for batch in loader for x in batch] == [i * i for i in range(24)]
    assert data[5] == 25
    print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers(tmp_path, method):
    runs(LOADER.replace("METHOD", repr(method)), tmp_path, "-Wignore")


USE = """
with Sandbox(workers=2, limits=Limits(60, 0.3)) as sandbox:
    pairs = [(SQUARE, str(i)) for i in range(8)]
    assert [v.output for v in sandbox.check_many(pairs)] == [str(i * i) for i in range(8)]
    assert sandbox.run(SPIN, "1").status == "timeout"
    assert sandbox.run(SQUARE, "4").output == "16"
"""

ALONE = {
    "all signals blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "all signals ignored": (
        "for n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(n, signal.SIG_IGN)"
    ),
    "no standard streams": "out = os.dup(1)\nfor n in range(3): os.close(n)",
}
TOGETHER = {
    "a folder that is gone": "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "no rights for new files": "os.umask(0o777)",
    "many open files": (
        "import resource\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))\n"
        "files = [open(os.devnull) for _ in range(1200)]"
    ),
    "an odd environment": (
        "os.environ.clear()\n"
        "os.environ.update(PYTHONHOME='/nowhere', PYTHONPATH='/nowhere', PYTHONSTARTUP='x', "
        "PYTHONOPTIMIZE='2', LC_ALL='xx_YY', TZ='Asia/Kolkata', PYTHONHASHSEED='7')"
    ),
    "changed limits": (
        "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "sys.setrecursionlimit(200)\nsys.set_int_max_str_digits(640)"
    ),
}
SURROUNDINGS = ALONE | {"all others": "\n".join(TOGETHER.values())}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_script_runs_from_unusual_callers(tmp_path, name):
    say = "os.write(out, b'done')" if "out =" in SURROUNDINGS[name] else "print('done')"
    runs(f"{SURROUNDINGS[name]}\n{USE}\n{say}\n", tmp_path)


@pytest.mark.parametrize("how", ["pass", "del sandbox", "sandbox.close()"])
def test_a_caller_that_ends_without_closing(tmp_path, how):
    script = f"""
sandbox = Sandbox(workers=2, limits=Limits(60, 60))
assert sandbox.check(SQUARE, "3").output == "9"
print(*sandbox.pids(), "done", flush=True)
{how}
"""
    runs(script, tmp_path, "-Werror", "-Xdev")
