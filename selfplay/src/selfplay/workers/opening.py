"""The parts of a run on several workers: on this machine, or on a cluster of Ray."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from selfplay.config.run_config import RunConfig
from selfplay.errors import SelfplayError
from selfplay.population.founders import all_founders
from selfplay.population.judging import LocalJudge
from selfplay.population.opening import open_sandbox, open_template
from selfplay.population.parts import Judge, Parts
from selfplay.population.prompt_bound import PromptBound
from selfplay.population.writing import Prompts
from selfplay.workers.actors import Actors
from selfplay.workers.pool import WorkerPool
from selfplay.workers.remote_judge import RemoteJudge
from selfplay.workers.remote_learner import RemoteLearner
from selfplay.workers.remote_writers import RemoteWriters
from selfplay.workers.session import ray_session


@dataclass(frozen=True)
class Workers:
    """How many workers, and where; called with a configuration it opens them."""

    count: int = 0
    """0: as many as there are GPUs, without GPUs as processors, and at most one a member."""
    address: str | None = None
    """A cluster of Ray as HOST:PORT or `auto`; None is this machine."""

    def __call__(self, config: RunConfig) -> AbstractContextManager[Parts]:
        """Open the parts of a run. Raises SelfplayError for workers that cannot be had."""
        return _opened(self, config)


@contextmanager
def _opened(workers: Workers, config: RunConfig) -> Iterator[Parts]:
    names = all_founders(config)
    if workers.count > len(names):
        raise SelfplayError(
            f"--workers is {workers.count}, the run has {len(names)} members; give at most one "
            "worker a member"
        )
    with ray_session(workers.address, workers.count) as ray:
        total = ray.cluster_resources()
        gpus = int(config.device != "cpu" and total.get("GPU", 0) >= 1)
        count = workers.count or _possible(total, gpus, len(names))
        _check_room(total, gpus, count)
        with (
            _judge(ray, config, workers.address) as judge,
            closing(WorkerPool(Actors(ray, config, names, gpus), len(names), count)) as pool,
        ):
            template, about = open_template(config), pool.about
            bound = PromptBound(config, template, about.tokenizer, about.context)
            writers = RemoteWriters(pool, Prompts(template, about.tokenizer, config.rollout))
            learner = RemoteLearner(pool)
            yield Parts(learner, writers, judge, bound.excess, writers.publish, pool.end_step)


@contextmanager
def _judge(ray: Any, config: RunConfig, address: str | None) -> Iterator[Judge]:
    """On one machine the driver's own sandbox, on a cluster one on every machine."""
    if address is None:
        with open_sandbox(config) as sandbox:
            yield LocalJudge(sandbox)
    else:
        with closing(RemoteJudge(ray, config)) as judge:
            yield judge


def _possible(total: Mapping[str, float], gpus: int, members: int) -> int:
    return max(1, min(members, int(total.get("GPU" if gpus else "CPU", 1))))


def _check_room(total: Mapping[str, float], gpus: int, count: int) -> None:
    for resource, each in (("GPU", gpus), ("CPU", 1)):
        there = int(total.get(resource, 0))
        if count * each > there:
            raise SelfplayError(
                f"{count} workers need {count * each} {resource}s, Ray has {there}; give at most "
                f"--workers {max(1, there // each)}, or add machines with `ray start`"
            )
