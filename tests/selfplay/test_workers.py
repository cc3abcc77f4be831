"""Runs on several workers: the same bytes as in one process, whatever dies on the way."""

import os
import signal
import socket
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from lora_evo import EngineStopped
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


class Watching(Progress):
    """Sees at every phase where the processes of a run listen, by what they are; ends something
    when a phase of the second step begins."""

    def __init__(self, phase, end, token, said):
        super().__init__(Console(file=said, width=200))
        self.at, self.end, self.ended = (2, phase), end, False
        self.token, self.seen = token, {}

    def phase(self, phase):
        for pid, kind in {os.getpid(): "driver", **living(self.token)}.items():
            with suppress(OSError):  # it has ended
                self.seen.setdefault(kind, set()).update(listening(pid))
        super().phase(phase)
        if (self.done + 1, phase) == self.at and not self.ended:
            self.ended = True
            self.end()


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
    """Return the list of pools that runs open."""
    opened = []

    class Watched(WorkerPool):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            opened.append(self)

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
def test_a_worker_that_says_nothing_is_not_waited_for_for_ever(runs, monkeypatch):
    config = for_workers(runs.config())
    with open_workers(config, template_of(config), 2, None) as population:
        os.kill(population.pool.places[1][1], signal.SIGSTOP)
        monkeypatch.setattr(remote, "PATIENCE", timedelta(seconds=2))
        with pytest.raises(EngineStopped, match=r"no answer for 0:00:02 from .*worker-1 \(process"):
            population.sync(1)


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


def test_workers_take_a_gpu_each(runs, monkeypatch, request):
    """In a cluster that counts two GPUs, whether or not there are such, and without a base."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "num_gpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    request.addfinalizer(cluster.shutdown)
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
    with open_workers(runs.config("device=auto"), None, 2, cluster.address) as pool:
        assert pool.text == "2 workers, one a GPU: 2 on here"
        seen = [actor.__ray_call__.remote(gpus) for actor in pool.actors]
        assert sorted(pool.ray.get(seen)) == [[0], [1]]
