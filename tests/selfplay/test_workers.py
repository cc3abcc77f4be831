"""Runs on several workers: the same bytes as in one process, whatever dies on the way."""

import json
import os
import pickle
import shutil
import signal
import socket
import sys
from dataclasses import replace

import pytest
import torch

from code_verifier import Proposal
from lora_evo import EngineStopped
from lora_evo.model import Rollout, load_base_model, resolve
from selfplay import devices, training
from selfplay.config import cut_by_member
from selfplay.errors import SelfplayError
from selfplay.learning.batch import TrainingSample
from selfplay.members import all_founders
from selfplay.prompts.template import template_of
from selfplay.records.directory import create
from selfplay.records.progress import Progress
from selfplay.rollout import Proposed
from selfplay.training import resume, train
from selfplay.workers import session
from selfplay.workers.pool import WorkerHandle, WorkerPool, check_equal, spread
from selfplay.workers.session import check_room, open_workers, ray_errors
from selfplay.workers.worker import WorkerInfo, fingerprint, versions
from selfplay_command import command, refused, train_until

pytest.importorskip("ray", reason="workers need Ray: pip install ray")
SLOW = pytest.mark.slow


class Ending(Progress):
    """Ends something when a phase of the second step begins."""

    def __init__(self, phase, end):
        super().__init__(quiet=True)
        self.at, self.end, self.ended = phase, end, False

    def phase(self, phase):
        super().phase(phase)
        if (self.done + 1, phase) == (2, self.at) and not self.ended:
            self.ended = True
            self.end()


def killed(pools, phase, asked=False):
    """Kill the last worker by SIGKILL when the phase begins, or as it is asked."""

    def kill():
        share = pools[-1].shares[-1]
        ask = share.ask

        def mortal(*arguments):
            del share.ask
            answer = ask(*arguments)
            os.kill(share.process, signal.SIGKILL)
            return answer

        if asked:
            share.ask = mortal
        else:
            os.kill(share.process, signal.SIGKILL)

    return Ending(phase, kill)


@pytest.fixture
def pools(monkeypatch):
    """The pools that runs open."""
    opened = []

    def watched(*arguments):
        opened.append(WorkerPool(*arguments))
        return opened[-1]

    monkeypatch.setattr(session, "WorkerPool", watched)
    return opened


@pytest.fixture(scope="module")
def alone(runs, tmp_path_factory):
    """The small run in one process, cut by member, and its outcome."""
    # Few rows to a batch, so that workers share out several pieces of the base's work.
    few = ("steps=3", "rollout.kinds=[code_o]", "rollout.max_rows=8")
    config = cut_by_member(runs.config("teachers=3", *few))
    home = tmp_path_factory.mktemp("alone") / "run"
    train(config, home)
    return config, runs.outcome(home)


@pytest.mark.parametrize(
    ("phase", "asked"),
    [
        ("update", True),
        *(pytest.param(p, s, marks=SLOW) for p, s in (("match", False), ("propose", True))),
        *(pytest.param(p, s, marks=SLOW) for p, s in (("solve", True), ("evolve", False))),
    ],
)
def test_two_workers_one_of_them_killed_give_the_same_bytes(
    alone, runs, pools, tmp_path, capfd, phase, asked
):
    config, expected = alone
    home = tmp_path / "run"
    ending = killed(pools, phase, asked)
    train(config, home, workers=2, progress=ending)
    assert ending.ended
    assert runs.outcome(home) == expected
    assert "worker-1 on " in capfd.readouterr().err
    last = runs.rows(home / "resources.jsonl")[-1]["workers"]
    names = [name for row in last.values() for name in row["members"]]
    assert len(last) == 2
    assert sorted(names) == sorted(runs.rows(home / "metrics.jsonl")[-1]["ratings"])
    assert all(row["busy"] > 0.0 and row["memory_mb"] > 0.0 for row in last.values())


@SLOW
def test_without_room_the_living_take_over(alone, runs, pools, tmp_path, monkeypatch, capfd):
    config, expected = alone
    monkeypatch.setattr(WorkerPool, "has_room", lambda self, count: False)
    train(config, tmp_path / "run", progress=killed(pools, "propose"), workers=2)
    assert runs.outcome(tmp_path / "run") == expected
    assert "worker-1 on " in capfd.readouterr().err


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
def test_a_lost_machine_changes_nothing(alone, runs, two_machines, tmp_path, capfd, phase):
    config, expected = alone
    (second,) = two_machines.worker_nodes
    ending = Ending(phase, lambda: two_machines.remove_node(second, allow_graceful=False))
    home = tmp_path / "run"
    train(config, home, workers=2, ray=two_machines.address, progress=ending)
    assert ending.ended
    assert runs.outcome(home) == expected
    assert "died" in capfd.readouterr().err
    shares = [row["workers"] for row in runs.rows(home / "resources.jsonl")]
    assert (len(shares[0]), len(shares[-1])) == (2, 1)


@SLOW
def test_a_run_continues_with_any_number_of_workers(alone, runs, tmp_path):
    config, expected = alone
    home = tmp_path / "run"

    train_until(3, replace(config, save_every=2), home, phase="solve", workers=3)
    resume(home)
    mine = runs.outcome(home)
    for name in (name for name in expected if name != "config.yaml"):
        assert mine[name] == expected[name], name


def test_members_are_spread_over_the_gpus_that_ray_has(runs):
    """Ray counts GPUs and hands their numbers out, whether or not there are such."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 4, "num_gpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for device, count, gpus in (("auto", 0, [[0], [1]]), ("cpu", 1, [[]])):
            config = runs.config(f"device={device}")
            with open_workers(config, template_of(config), count, cluster.address) as population:
                shares = population._pool.shares
                seen = [s.actor.__ray_call__.remote(lambda _: ray.get_gpu_ids()) for s in shares]
                assert sorted(ray.get(seen)) == gpus
                assert [s.places for s in shares] == spread(4, len(gpus))
                assert population.export("s1").slots
    finally:
        cluster.shutdown()


def test_what_members_become_does_not_pass_through_the_driver(runs, monkeypatch):
    import ray

    config, passed, get = cut_by_member(runs.config()), [], ray.get
    samples = [
        TrainingSample(
            name,
            Rollout(name, (1, 2), (3 + i, 4), (-1.0, -1.0), "stop"),
            (-1.0) ** i,
            task_id=str(i),
        )
        for name in all_founders(config)
        for i in range(2)
    ]

    def counted(references, **how):
        found = get(references, **how)
        passed.append(len(pickle.dumps(found)))
        return found

    with open_workers(config, template_of(config), 2, None) as population:
        before, _ = population.state_dict()
        monkeypatch.setattr(ray, "get", counted)
        stats = population.update(samples)
        monkeypatch.undo()
        after, _ = population.state_dict()
    assert list(stats) == all_founders(config)
    assert sum(passed) < 0.05 * sum(t.nbytes for t in after.values())
    moved = {int(key.partition("/")[0]) for key in after if not after[key].equal(before[key])}
    assert moved == set(range(len(stats)))


def test_a_chat_model_has_the_same_bytes_with_workers(runs, tmp_path):
    base = shutil.copytree(resolve("nano"), tmp_path / "base")
    (base / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m.content }}]{% endfor %}[answer]"
    )
    path = base / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": 8192}))
    chat = (
        "steps=1",
        "rollout.seed_tasks=1",
        f"base={base}",
        "template=azr-chat",
        "rollout.max_prompt_length=1024",
    )
    config = cut_by_member(runs.config(*chat, "eval.eval_every=0"))
    train(config, tmp_path / "one")
    train(config, tmp_path / "two", workers=2)
    assert runs.outcome(tmp_path / "two") == runs.outcome(tmp_path / "one")


def test_the_built_in_model_uses_all_cores_where_ray_is(runs, monkeypatch):
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert devices.worker_count(runs.config(), None, None) == 3
    assert devices.worker_count(runs.config("mode=azr"), None, None) == 1
    assert devices.worker_count(runs.config("base=/a/model"), None, None) == 1
    assert devices.worker_count(runs.config("engine=vllm"), None, None) == 1
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.worker_count(runs.config(), None, None) == 1


def test_workers_are_refused_a_base_that_is_spread_over_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "open_workers", None)
    tensors = ("--set", "engine=vllm", "--set", "vllm.tensor_parallel_size=2")
    words = ("vllm.tensor_parallel_size is 2, and each of several workers has one GPU", "leave out")
    home = tmp_path / "run"
    refused(command("train", "--out", home, "--quiet", "--workers", "2", *tensors), *words)
    assert not home.exists()


@pytest.mark.parametrize(("engine", "shown"), [("vllm", True), ("hf", False)])
def test_what_the_processes_of_vllm_write_is_shown(runs, monkeypatch, engine, shown):
    def stopped(address, cpus, show):
        raise SelfplayError(f"show is {show}")

    monkeypatch.setattr(session, "ray_session", stopped)
    config = runs.config(f"engine={engine}")
    with (
        pytest.raises(SelfplayError, match=f"show is {shown}"),
        open_workers(config, template_of(config), 2, None),
    ):
        pass


def test_a_run_in_shared_batches_says_that_workers_round_otherwise(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "resume", lambda *_, **__: None)
    for setting, said in (("false", True), ("true", False)):
        home = tmp_path / setting
        create(home, runs.config(f"batch_by_member={setting}"))
        result = command("resume", home, "--workers", "2")
        assert ("started without --workers" in result.output) == said


def train_with(tmp_path, *options):
    return command("train", "--out", tmp_path / "run", "--quiet", "--steps", "1", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", "5"), "--workers is 5, the run has 4 members"),
        (("--ray", "somewhere"), "--ray is 'somewhere'; expected HOST:PORT"),
    ],
)
def test_workers_that_cannot_be_had_are_one_line(tmp_path, options, message):
    refused(train_with(tmp_path, *options), f"error: {message}")
    assert not (tmp_path / "run").exists()


def test_an_address_where_nothing_answers_is_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = train_with(tmp_path, "--ray", f"127.0.0.1:{port}")
    refused(result, f"nothing answers at 127.0.0.1:{port} (Connection refused)")


def test_without_ray_the_line_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    refused(
        train_with(tmp_path, "--workers", "2"),
        f"type: {sys.executable} -m pip install ray, or leave out",
    )


def test_a_base_that_a_worker_cannot_load_is_its_own_line(tmp_path):
    result = train_with(tmp_path, "--workers", "2", "--set", "base=/nowhere", "--force")
    assert result.exit_code == 2
    assert "/nowhere" in result.output
    assert "Traceback" not in result.output


def test_what_ray_itself_cannot_do_is_one_line():
    import ray

    errors = ray.exceptions
    for error, line in (
        (errors.ObjectStoreFullError("full"), "object store is full"),
        (errors.OutOfDiskError("full"), "object store is full"),
        (errors.RaySystemError("the head is gone"), "Ray failed: System error: the head is gone"),
    ):
        with pytest.raises(EngineStopped, match=line), ray_errors(ray):
            raise error


def about(**changes):
    same = WorkerInfo("here", "n", 1, versions(), "abc", None, None, 1, True)
    return replace(same, **changes)


def test_workers_of_other_versions_or_another_base_are_refused():
    shares = [WorkerHandle("worker-0", None, (0,), "a"), WorkerHandle("worker-1", None, (1,), "b")]
    check_equal(shares, [about(), about()])
    other = versions() | {"torch": "1.0"}
    with pytest.raises(SelfplayError, match=r"worker-1 on b has other versions: torch 1\.0 \(here"):
        check_equal(shares, [about(), about(versions=other)])
    with pytest.raises(SelfplayError, match="worker-1 on b has another base model than worker-0"):
        check_equal(shares, [about(), about(base="xyz")])


def test_a_base_is_known_by_its_weights():
    model = load_base_model("nano", torch.device("cpu"), "float32").model
    before = fingerprint(model)
    assert fingerprint(model) == before
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 0.01
    assert fingerprint(model) != before


def test_more_workers_than_ray_has_room_for_is_one_line():
    check_room({"CPU": 4.0, "GPU": 2.0}, 1, 2)
    with pytest.raises(SelfplayError, match=r"3 workers need 3 GPUs, Ray has 2; give at most .* 2"):
        check_room({"CPU": 4.0, "GPU": 2.0}, 1, 3)
    with pytest.raises(SelfplayError, match="5 workers need 5 CPUs, Ray has 4"):
        check_room({"CPU": 4.0}, 0, 5)


def test_proposals_go_between_processes_without_trees():
    proposal = Proposal("code_o", "def f(a):\n    return a", "1")
    assert proposal.parsed.text == proposal.program
    written = Proposed(0, "p", "t0", "s0", "code_o", (), 0, proposal=proposal)
    again = pickle.loads(pickle.dumps(written))
    assert again == written
    assert "parsed" not in vars(again.proposal)
