"""Runs on two machines that share nothing but a cable, and one that dies.

A machine here has a network, /tmp, /dev/shm and processes of its own, all of which the kernel
removes with its first process. Only the first sees the run directory.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from processes import gone
from selfplay.config import for_workers
from selfplay.training import train

pytestmark = pytest.mark.slow
LIMIT_S = 900.0
"""How long anything may take on a busy machine."""
ADDRESSES = "10.231.0.1", "10.231.0.2"
HEAD = f"{ADDRESSES[0]}:6379"
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of these two machines"}
"""Else Ray's head asks for the token in the home, if any, which other machines do not send."""
TOOLS = "unshare", "nsenter", "ip"
SETTINGS = ("steps=4", "teachers=3", "learner.micro_batch_tokens=16")
"""With an evolution after step 2; so few tokens cut every update into pieces."""

BOOT = """
set -e
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/tmp
for path in "$@"; do mkdir -p "/mnt$path"; mount --bind "$path" "/mnt$path"; done
mount --rbind /mnt/tmp /tmp
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo up
read _
"""
"""The first process: only these folders are seen in /tmp; it ends when its input is closed."""


class Machine:
    """A machine; `folders` of /tmp are seen there. Its first process is a child of this one."""

    def __init__(self, *folders):
        space = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
        inside = [path for path in map(str, folders) if path.startswith("/tmp/")]
        words = ["unshare", *space, "sh", "-c", BOOT, "sh", *inside]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.first = subprocess.Popen(words, **pipes, text=True)
        if self.first.stdout.readline() != "up\n":
            pytest.skip(f"no namespaces here: {self.first.communicate()[1].strip()}")
        spaces = f"/proc/{self.first.pid}/ns"
        # As long as this is open, the cable's ends are there, also without processes.
        self.plug = os.open(f"{spaces}/net", os.O_RDONLY)
        self.net = ["nsenter", f"--net={spaces}/net"]
        self.all = [*self.net, f"--mount={spaces}/mnt", f"--pid={spaces}/pid_for_children"]

    def start(self, said, *words, **variables):
        """Start a command on the machine; what it says goes into the file `said`."""
        env = os.environ | {"OMP_NUM_THREADS": "1"} | TOKEN | variables
        with said.open("ab") as file:
            return subprocess.Popen(
                [*self.all, *map(str, words)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def sees(self, path):
        return subprocess.run([*self.all, "test", "-e", path], timeout=LIMIT_S).returncode == 0

    def link(self, *words):
        words = [*self.net, "ip", *words]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr

    def end(self):
        """End its first process by SIGKILL, and so all others."""
        self.first.kill()
        self.first.communicate(timeout=LIMIT_S)

    def unplug(self):
        self.end()
        os.close(self.plug)


class NotStarted(Exception):
    """A Ray node did not start: Ray itself gives up after half a minute, as on a busy machine."""


def two_started(folder, stack):
    """Two machines, made again where Ray did not start."""
    for _ in range(4):
        with ExitStack() as own:
            try:
                machines = TwoMachines(folder, own)
            except NotStarted as error:
                last = error
                continue
            stack.enter_context(own.pop_all())
            return machines
    raise last


class TwoMachines:
    """Two machines with a cable and a Ray node of one core each; the first sees `folder`."""

    def __init__(self, folder, stack):
        code = Path(__file__).parents[2], sys.prefix, sys.base_prefix
        code += tuple(p for p in os.environ.get("PYTHONPATH", "").split(":") if p)
        self.folder, self.said, self.token = folder, folder / "said", str(folder)
        self.near, self.far = (Machine(*code, *more) for more in ((folder,), ()))
        stack.callback(self.near.unplug)
        stack.callback(self.far.unplug)
        ends = ["eth0", "type", "veth", "peer", "name", "eth0", "netns", str(self.far.first.pid)]
        self.near.link("link", "add", *ends)
        for machine, address in zip((self.near, self.far), ADDRESSES, strict=True):
            machine.link("addr", "add", f"{address}/24", "dev", "eth0")
            machine.link("link", "set", "eth0", "up")
            machine.link("route", "add", "default", "dev", "eth0")
        self.ray(self.near, "--head", "--port=6379", "--include-dashboard=false")
        self.ray(self.far, f"--address={HEAD}")

    def ray(self, machine, *words):
        words = ("-m", "ray.scripts.scripts", "start", *words, "--num-cpus=1")
        few = ("--object-store-memory=100000000", "--disable-usage-stats")
        begun = machine.start(self.said, sys.executable, *words, *few, OF_THIS_RUN=self.token)
        if begun.wait(LIMIT_S) != 0:
            raise NotStarted(self.said.read_text())

    def train(self, *words, program=("-m", "selfplay")):
        """Start a run on both."""
        options = ("--workers", "2", "--ray", HEAD)
        command = (sys.executable, *program, *words, *options)
        return self.near.start(self.said, *command, OF_THIS_RUN=self.token)


@pytest.fixture
def two_machines(tmp_path):
    if not find_spec("ray"):
        pytest.skip("workers need Ray: pip install ray")
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    if missing := [name for name in TOOLS if not shutil.which(name)]:
        pytest.skip(f"not installed (util-linux, iproute2): {', '.join(missing)}")
    with ExitStack() as stack:
        machines = two_started(tmp_path, stack)
        assert machines.near.sees(tmp_path)
        assert not machines.far.sees(tmp_path)
        yield machines
    assert not gone(machines.token, 60.0)


@pytest.fixture(scope="module")
def expected(runs, tmp_path_factory):
    """The outcome of the run in one process."""
    home = tmp_path_factory.mktemp("alone") / "run"
    train(for_workers(runs.config(*SETTINGS)), home)
    return runs.outcome(home)


def spoken(runs, home):
    """The arguments of a run that says on which workers it is."""
    return [word for word in runs.arguments(home, *SETTINGS) if word != "--quiet"]


def test_two_machines_give_the_bytes_of_one_process(expected, runs, two_machines):
    home = two_machines.folder / "run"
    ended = two_machines.train(*spoken(runs, home)).wait(LIMIT_S)
    said, host = two_machines.said.read_text(), socket.gethostname()
    assert ended == 0, said
    assert runs.outcome(home) == expected
    machines = ", ".join(f"1 on {host} ({address})" for address in ADDRESSES)
    assert f"on 2 workers, one a core: {machines}" in " ".join(said.split())
    assert not two_machines.far.sees(home)


PAUSING = """
import sys, time
from pathlib import Path
from selfplay.cli import main
from selfplay.reports.progress import Progress

begin, (name, folder) = Progress.phase, (sys.argv.pop(1), Path(sys.argv.pop(1)))

def phase(self, phase):
    "As the phase of the second step begins, wait until the test has done its part."
    begin(self, phase)
    if (self.done + 1, phase) == (2, name):
        (folder / "begun").touch()
        while not (folder / "go on").exists():
            time.sleep(0.1)

Progress.phase = phase
main()
"""


@pytest.mark.parametrize(("phase", "cable"), [("solve", True), ("update", True), ("update", False)])
def test_a_machine_that_dies_changes_nothing(expected, runs, two_machines, phase, cable):
    """Its processes die, or it is cut off: then no connection is closed, as without power."""
    folder, home = two_machines.folder, two_machines.folder / "run"
    run = two_machines.train(*spoken(runs, home), program=("-c", PAUSING, phase, folder))
    end = time.monotonic() + LIMIT_S
    while not (folder / "begun").exists() and time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            assert run.wait(0.1) is None, two_machines.said.read_text()
    if not cable:
        two_machines.far.link("link", "set", "eth0", "down")
    two_machines.far.end()
    (folder / "go on").touch()
    ended, said = run.wait(LIMIT_S), two_machines.said.read_text()
    assert ended == 0, said
    assert runs.outcome(home) == expected
    assert re.findall(r"on (\d) workers?, one a core", said) == ["2", "1"]
    assert said.count("the run goes back to its checkpoint of step 1") == 1
    assert f"on {socket.gethostname()} ({ADDRESSES[1]})) died: its machine is gone" in said
