"""Two machines, as far as Ray knows: one is lost in each phase of a step."""

import pytest

from selfplay.config import cut_by_member
from selfplay.progress import Progress
from selfplay.training import train

pytest.importorskip("ray", reason="workers need Ray: pip install 'populab-selfplay[ray]'")
pytestmark = pytest.mark.slow
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
"""A node is given up after 1.5 seconds without a sign, instead of half a minute."""


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": QUICK}
    opened = Cluster(initialize_head=True, head_node_args=head)
    opened.add_node(num_cpus=1)
    opened.wait_for_nodes()
    yield opened
    opened.shutdown()


class Loss(Progress):
    """Kills the second node's processes by SIGKILL in a phase of the second step."""

    def __init__(self, cluster, at):
        super().__init__(quiet=True)
        self.cluster, self.at, self.lost = cluster, at, False

    def phase(self, phase):
        super().phase(phase)
        if (self.done + 1, phase) == (2, self.at) and not self.lost:
            self.lost = True
            (node,) = self.cluster.worker_nodes
            self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="module")
def alone(runs, tmp_path_factory):
    config = cut_by_member(runs.config())
    home = tmp_path_factory.mktemp("alone") / "run"
    train(config, home)
    return config, runs.outcome(home)


@pytest.mark.parametrize("phase", ["match", "propose", "verify", "solve", "update"])
def test_a_lost_machine_changes_nothing(cluster, alone, runs, tmp_path, capfd, phase):
    config, expected = alone
    loss = Loss(cluster, phase)
    home = tmp_path / "run"
    train(config, home, workers=2, ray=cluster.address, progress=loss)
    assert loss.lost
    assert runs.outcome(home) == expected
    said = capfd.readouterr().err
    assert "died" in said
    shares = [row["workers"] for row in runs.rows(home / "resources.jsonl")]
    assert (len(shares[0]), len(shares[-1])) == (2, 1)
