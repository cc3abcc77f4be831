"""Runs on several workers: the same bytes as in one process, whatever dies on the way."""

import os
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from lora_evo import EngineStopped, adapter_hash
from processes import gone, listening, living
from selfplay.config import for_workers
from selfplay.errors import SelfplayError
from selfplay.files.layout import create
from selfplay.learning import pieces
from selfplay.members import remote
from selfplay.members.remote import (
    WorkerPool,
    check_equal,
    machine_names,
    open_workers,
    ray_session,
    versions,
)
from selfplay.reports.progress import Progress
from selfplay.sampling.prompts import template_of
from selfplay.training import resume, train
from selfplay_command import command, refused, train_until

pytestmark = [
    pytest.mark.skipif(not find_spec("ray"), reason="workers need Ray: pip install ray"),
    # Ray waits a second for a process of its own that it has killed; a busy machine takes longer.
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]
SLOW = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    """Few rows are many pieces, and there are enough cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SMALL_ROWS", 1)
        patch.setattr(pieces, "GOOD_ROWS", 3)
        patch.setattr(remote, "cores", lambda: 4)
        yield


class Ending(Progress):
    """Ends something when a phase of the second step begins; then stops, if asked to."""

    def __init__(self, phase, end, until=None, console=None):
        super().__init__(console, quiet=console is None)
        self.at, self.end, self.ended, self.until = (2, phase), end, False, (until, "propose")

    def phase(self, phase):
        super().phase(phase)
        if (self.done + 1, phase) == self.until:
            raise KeyboardInterrupt
        if (self.done + 1, phase) == self.at and not self.ended:
            self.ended = True
            self.end()


class Watching(Ending):
    """Sees at every phase where the processes of a run listen, by what they are."""

    def __init__(self, phase, end, token, said):
        super().__init__(phase, end, console=Console(file=said, width=200))
        self.token, self.seen = token, {}

    def phase(self, phase):
        for pid, kind in {os.getpid(): "driver", **living(self.token)}.items():
            with suppress(OSError):  # it has ended
                self.seen.setdefault(kind, set()).update(listening(pid))
        super().phase(phase)


def killing(pools, asked):
    """Return what kills the last worker by SIGKILL, at once or as it is asked."""

    def kill():
        (_, process), ray = pools[-1].places[-1], pools[-1].ray
        wait = ray.wait

        def mortal(*arguments, **how):
            ray.wait = wait
            os.kill(process, signal.SIGKILL)
            return wait(*arguments, **how)

        if asked:
            ray.wait = mortal
        else:
            os.kill(process, signal.SIGKILL)

    return kill


def watched(patch):
    """Return the list of pools that runs open, each with the sizes of the answers to updates."""
    opened = []

    class Watched(WorkerPool):
        def __init__(self, *arguments, **more):
            self.sizes = []
            super().__init__(*arguments, **more)
            opened.append(self)

        def each(self, method, arguments):
            for rank, answer in super().each(method, arguments):
                if method == "update":
                    self.sizes.append(len(pickle.dumps(answer)))
                yield rank, answer

    patch.setattr(remote, "WorkerPool", Watched)
    return opened


@pytest.fixture
def pools(monkeypatch):
    return watched(monkeypatch)


MODES = {"populora": ("teachers=3",), "azr": ("mode=azr",)}


@pytest.fixture(scope="module")
def alone(runs, tmp_path_factory):
    """By mode, the small run in one process, cut into pieces, and its outcome."""
    made = {}

    def of(mode="populora"):
        if mode not in made:
            # So few tokens cut every update, whatever workers know of `small_pieces`.
            few = ("steps=3", "rollout.kinds=[code_o]", "learner.micro_batch_tokens=16")
            config = for_workers(runs.config(*MODES[mode], *few))
            home = tmp_path_factory.mktemp("alone") / "run"
            train(config, home)
            made[mode] = config, runs.outcome(home)
        return made[mode]

    return of


@SLOW
@pytest.mark.parametrize(("mode", "workers"), [("populora", 3), ("azr", 2)])
def test_any_number_of_workers_gives_the_same_bytes(alone, runs, pools, tmp_path, mode, workers):
    config, expected = alone(mode)
    train(config, tmp_path / "run", workers=workers)
    assert runs.outcome(tmp_path / "run") == expected
    assert [len(pool.places) for pool in pools] == [workers]


@pytest.fixture(
    scope="module",
    params=[
        ("update", True),
        *(
            pytest.param((phase, asked), marks=SLOW)
            for phase in ("match", "propose", "verify", "solve", "update", "evolve", "save", "eval")
            for asked in (False, True)
            if (phase, asked) not in (("update", True), ("match", True), ("verify", True))
        ),
    ],
)
def disturbed(request, alone, tmp_path_factory):
    """The run on two workers, the last of which is killed in a phase of the second step."""
    phase, asked = request.param
    home, said = tmp_path_factory.mktemp("disturbed") / "run", StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.setenv("OF_THIS_RUN", str(home))
        opened = watched(patch)
        shown = Watching(phase, killing(opened, asked), str(home), said)
        train(alone()[0], home, workers=2, progress=shown)
    assert shown.ended
    return SimpleNamespace(home=home, pools=opened, said=said.getvalue(), seen=shown.seen)


def test_a_worker_that_is_killed_changes_nothing(alone, runs, disturbed):
    """The first step was done by both, the others by two new ones: all as one process does it."""
    _, expected = alone()
    assert runs.outcome(disturbed.home) == expected
    assert "on 2 workers, one a core: 2 on " in disturbed.said
    assert "worker-1 (process " in disturbed.said
    assert "A worker died" not in disturbed.said, "as Ray says it"
    assert "the run goes back to its checkpoint of step 1" in disturbed.said
    assert [len(pool.places) for pool in disturbed.pools] == [2, 2]


def test_no_process_of_a_run_listens_beyond_the_loopback_and_none_outlives_it(disturbed):
    listen = {kind for kind, addresses in disturbed.seen.items() if addresses}
    assert {"driver", "worker", "raylet", "gcs_server"} <= listen
    assert set().union(*disturbed.seen.values()) == {"127.0.0.1"}, disturbed.seen
    assert not gone(str(disturbed.home), 60.0)


def test_weights_do_not_pass_through_the_driver(disturbed):
    for pool in disturbed.pools:
        assert pool.sizes
        assert max(pool.sizes) < 10_000


@pytest.fixture
def two_machines():
    """As far as Ray knows; one is given up after 1.5 seconds without a sign, not half a minute."""
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
    quick["health_check_failure_threshold"] = 3
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick}
    opened = Cluster(initialize_head=True, head_node_args=head)
    opened.add_node(num_cpus=1)
    opened.wait_for_nodes()
    yield opened
    opened.shutdown()


@SLOW
@pytest.mark.parametrize("phase", ["match", "propose", "verify", "solve", "update"])
def test_a_machine_that_is_lost_and_comes_back_changes_nothing(
    alone, runs, pools, two_machines, tmp_path, capfd, phase
):
    config, expected = alone()
    (second,) = two_machines.worker_nodes
    ending = Ending(phase, lambda: two_machines.remove_node(second, allow_graceful=False), until=3)
    home, both = tmp_path / "run", {"workers": 2, "ray": two_machines.address}
    with pytest.raises(KeyboardInterrupt):
        train(config, home, progress=ending, **both)
    assert ending.ended
    assert "the run goes back to its checkpoint of step 1" in capfd.readouterr().err
    two_machines.add_node(num_cpus=1)
    two_machines.wait_for_nodes()
    resume(home, **both)
    assert runs.outcome(home) == expected
    assert [len(pool.places) for pool in pools] == [2, 1, 2]


@SLOW
def test_a_run_continues_with_any_number_of_workers(alone, runs, tmp_path):
    config, expected = alone()
    home = tmp_path / "run"

    train_until(3, replace(config, save_every=2), home, phase="solve", workers=3)
    resume(home)
    mine = runs.outcome(home)
    for name in (name for name in expected if name != "config.yaml"):
        assert mine[name] == expected[name], name


@SLOW
def test_members_of_a_machine_without_the_run_directory_are_saved_as_those_of_others(
    runs, tmp_path, monkeypatch
):
    config, (near, far, home) = for_workers(runs.config()), (tmp_path / n for n in "abc")
    near.mkdir()
    far.mkdir()
    with open_workers(config, template_of(config), 2, None) as population:
        population.save(near, home)
        elsewhere = [(places, tmp_path / "not-there", home) for places in ((0, 2), (1, 3))]
        whole = list(population.pool.each("save_some", elsewhere))
        with monkeypatch.context() as patch:
            patch.setattr(population.pool, "each", lambda *_: whole)
            population.save(far, home)
        for path in near.iterdir():
            assert (far / path.name).read_bytes() == path.read_bytes()
        before = [adapter_hash(population.export(name)) for name in population.members]
        population.replace("t0", population.export("s0"), "t7")
        population.load(far, config.founders)
        after = [adapter_hash(population.export(name)) for name in population.members]
    assert after == before


@SLOW
def test_a_worker_that_says_nothing_is_not_waited_for_for_ever(runs, monkeypatch):
    config = for_workers(runs.config())
    with open_workers(config, template_of(config), 2, None) as population:
        os.kill(population.pool.places[1][1], signal.SIGSTOP)
        monkeypatch.setattr(remote, "PATIENCE", timedelta(seconds=2))
        with pytest.raises(EngineStopped, match=r"no answer for 0:00:02 from .*worker-1 \(process"):
            population.sync(1)


@SLOW
def test_workers_that_never_start_are_not_waited_for_for_ever(runs, monkeypatch):
    """As where others take the room that was free, or where Ray's own process dies meanwhile."""
    config = for_workers(runs.config())
    monkeypatch.setattr(remote, "MEETING", timedelta(seconds=3))
    with (
        ray_session(None, 1) as ray,
        pytest.raises(EngineStopped, match=r"0:00:03 from .*worker-1"),
    ):
        WorkerPool(ray, config, template_of(config), 0, 2)


def train_with(tmp_path, *options):
    return command("train", "--out", tmp_path / "run", "--quiet", "--steps", "1", *options)


def test_workers_that_cannot_be_had_are_one_line_and_change_no_run(runs, tmp_path, monkeypatch):
    spread = ("--set", "engine=vllm", "--set", "vllm.tensor_parallel_size=2")
    with socket.socket() as held:  # nobody else gets the port meanwhile
        held.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{held.getsockname()[1]}"
        for options, message in (
            (("--workers", "5"), "--workers is 5, and 4 cores may be used here"),
            (("--ray", closed), f"nothing answers at {closed} (Connection refused)"),
            (("--workers", "2", *spread), "vllm.tensor_parallel_size is 2, and each of several"),
        ):
            refused(train_with(tmp_path, *options), f"error: {message}")
    home = tmp_path / "older"
    create(home, runs.config("pieces=0"))
    before = (home / "config.yaml").read_bytes()
    result = command("resume", home, "--workers", "5")
    assert result.exit_code == 2
    assert "4 cores" in result.stderr
    assert "started without --workers" in result.stderr
    assert (home / "config.yaml").read_bytes() == before
    monkeypatch.setitem(sys.modules, "ray", None)
    words = f"type: {sys.executable} -m pip install ray, or leave out"
    refused(train_with(tmp_path, "--workers", "2"), words)
    assert not (tmp_path / "run").exists()


def test_workers_of_other_versions_or_another_base_are_refused():
    same = versions() | {"base": "abc"}
    check_equal("worker-1", same, same)
    with pytest.raises(SelfplayError, match=r"worker-1 is not as the others: torch 1\.0 \(not "):
        check_equal("worker-1", same | {"torch": "1.0"}, same)
    with pytest.raises(SelfplayError, match=r"worker-1 is not as .*: base xyz \(not abc\)"):
        check_equal("worker-1", same | {"base": "xyz"}, same)


def test_machines_of_one_name_are_told_apart_by_their_addresses():
    one, two, other = ("node", "10.0.0.1"), ("node", "10.0.0.2"), ("head", "10.0.0.3")
    assert machine_names([one, other, one]) == ["node", "head", "node"]
    names = machine_names([one, two, other, one])
    assert names == ["node (10.0.0.1)", "node (10.0.0.2)", "head", "node (10.0.0.1)"]


@pytest.fixture(scope="module")
def cluster():
    """A cluster that counts two GPUs and hands their numbers out, whether or not there are such."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "num_gpus": 2, "include_dashboard": False}
    opened = Cluster(initialize_head=True, head_node_args=head)
    yield opened.address
    opened.shutdown()


def test_workers_take_a_gpu_each(runs, cluster, monkeypatch):
    """Without a base, as the numbers of the GPUs are all that is looked at."""
    answers = {
        "meet": (("here", "127.0.0.1"), os.getpid()),
        "open": (versions() | {"base": "none"}, ()),
    }

    class Light:
        def __init__(self, rank):
            pass

        def do(self, method, *arguments):
            return answers[method]

    def gpus(_):
        import ray

        return ray.get_gpu_ids()

    monkeypatch.setattr(remote, "Worker", Light)
    monkeypatch.setattr(remote, "RemotePopulation", lambda pool, *_: pool)
    with open_workers(runs.config("device=auto"), None, 2, cluster) as pool:
        assert pool.text == "2 workers, one a GPU: 2 on here"
        seen = [actor.__ray_call__.remote(gpus) for actor in pool.actors]
        assert sorted(pool.ray.get(seen)) == [[0], [1]]


HOLDING = """
import sys, ray
ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
holder = ray.remote(num_cpus=2)(type("Holder", (), {"held": lambda self: True})).remote()
ray.get(holder.held.remote())
print("held", flush=True)
sys.stdin.read()
"""


def test_a_full_cluster_is_one_line(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "_ROOM_S", 1.0)
    words = [sys.executable, "-c", HOLDING, cluster]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        of_cluster = ("--ray", cluster, "--set", "device=cpu")
        for count, needed in (("2", "2 workers need 2 CPUs"), ("0", "1 workers need 1 CPUs")):
            result = train_with(tmp_path, *of_cluster, "--workers", count)
            refused(result, needed, "Ray has 2, of which 0 are free", "wait, or add machines")
        assert not (tmp_path / "run").exists()
    finally:
        other.communicate("")
