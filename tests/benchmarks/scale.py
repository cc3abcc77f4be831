"""What the driver of a large run does: `python tests/benchmarks/scale.py --gpus 64 --members 256`.

The loop, the league, Ray's transport, and in the workers the prompts and parsers are real; their
engines sleep, and return samples as long as a 7B's (half of 4,096 tokens) of tasks that the
built-in model was tested on; the judge, on a cluster in processes of its own, says yes. Printed:
seconds of the driver's processor in each phase of a step, its share of a step whose other seconds
are those that `selfplay plan` reckons for such a worker, and its memory. A step has 48 proposals a
teacher and 8 attempts each, as the preset 7b-4t4s.
"""

import argparse
import pickle
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from code_verifier import Grade, Metrics, Proposal, Status, Task, Validation, measure
from code_verifier.program.source import parse_program
from evals.engine.base_model import load_base_model
from evals.engine.rollout import Rollout, TokenRequest
from lora_evo import Adapter, AdapterConfig, Slot
from selfplay.config.preset import read_preset
from selfplay.config.run_config import RunConfig, override, read_config
from selfplay.learning.member_state import MemberState
from selfplay.learning.update_stats import StatsSum
from selfplay.planning.architecture import read_architecture
from selfplay.planning.machine import gpu_named
from selfplay.planning.plan import make_plan
from selfplay.planning.share import largest_share
from selfplay.population.founders import all_founders
from selfplay.population.memory import memory_mb
from selfplay.population.parts import Parts
from selfplay.population.prompt_bound import PromptBound
from selfplay.population.writing import LocalWriters, Prompts
from selfplay.prompts.template import template_named
from selfplay.run.held_out import held_out_tasks
from selfplay.step import loop
from selfplay.step.progress import Progress
from selfplay.workers.actors import Share
from selfplay.workers.pool import WorkerPool
from selfplay.workers.remote_learner import RemoteLearner
from selfplay.workers.remote_writers import RemoteWriters
from selfplay.workers.session import ray_session
from selfplay.workers.transport import pack_written, read_samples
from selfplay.workers.worker import About, Done

TOKENS = 2048
HOSTS = 4
"""Processes that hold all sleeping workers."""


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--members", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2)
    arguments = parser.parse_args()
    config = settings(arguments.members, arguments.steps)
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, ray_session(None, HOSTS) as ray:
        names = all_founders(config)
        pool = WorkerPool(Sleeping(ray, names, config), len(names), arguments.gpus)

        @contextmanager
        def parts(_: RunConfig) -> Iterator[Parts]:
            template = template_named(config.template, config.base)
            tokenizer, learner = pool.about.tokenizer, RemoteLearner(pool)
            excess = PromptBound(config, template, tokenizer, None).excess
            writers = RemoteWriters(pool, Prompts(template, tokenizer, config.rollout))
            yield Parts(learner, writers, Yes(), excess, writers.publish, pool.end_step)

        with loop.new_run(config, Path(folder) / "run", parts) as run:
            for _ in range(arguments.steps):
                clock = Processor()
                loop.train_step(run, clock)
                found.append(clock.stop())
        size = sum(p.stat().st_size for p in (Path(folder) / "run").glob("*.jsonl"))
    report(found[1:] or found, arguments, size / arguments.steps)


def report(found: Sequence[dict[str, float]], arguments: Any, size: float) -> None:
    """Print the driver's seconds by phase, and their share."""
    config = read_config(read_preset("7b-8t8s"))
    config = replace(config, teachers=arguments.members // 2, students=arguments.members // 2)
    model = read_architecture(config.base)
    share = largest_share(config, arguments.gpus)
    plan = make_plan(share, model, gpu_named("H100"))
    worked = sum(plan.seconds.values())
    for phase in found[0]:
        print(f"{phase:8} {fmean(row.get(phase, 0.0) for row in found):7.2f} s")
    whole = fmean(sum(row.values()) for row in found)
    whole_step = whole + worked
    print(f"driver   {whole:7.2f} s of {whole_step:.0f} s a step: {whole / whole_step:.1%}")
    print(f"memory {memory_mb():,.0f} MB; {size / 1e6:,.0f} MB written a step")


def settings(members: int, steps: int) -> RunConfig:
    """So many members with the preset's rollouts, the built-in model's tokenizer, AZR's prompts."""
    data = read_preset("nano")
    for assignment in (
        *("template=azr", f"steps={steps + 1}", "save_every=1000", "yardstick.eval_every=0"),
        *(f"teachers={members // 2}", f"students={members // 2}", "evolution.evolve_every=0"),
        *("rollout.kinds=[code_o]", "rollout.proposals=48", "rollout.num_generations=8"),
        *("rollout.max_prompt_length=6144", "rollout.max_proposal_length=4096"),
        "rollout.max_completion_length=4096",
        *("rollout.num_references=6", "rollout.buffer_tasks=16384"),
    ):
        override(data, assignment)
    return read_config(data)


def tasks() -> list[Task]:
    """Tasks that parse, run and differ."""
    return [held.task for held in held_out_tasks(("nano_code_o",), 240)]


class Yes:
    """A judge that accepts every proposal and half of the answers, at once."""

    def __init__(self) -> None:
        self._like = tasks()[0]
        self._metrics = measure(parse_program(self._like.program))
        self._luck = random.Random(1)

    def validate_many(
        self, proposals: Iterable[Proposal], /
    ) -> Iterator[tuple[Validation, Metrics | None]]:
        """Accept."""
        for proposal in proposals:
            task = replace(self._like, program=proposal.program, input=proposal.input)
            yield Validation(Status.OK, "", task), self._metrics

    def grade_many(self, answers: Iterable[tuple[Task, str]], /) -> Iterator[Grade]:
        """Accept half."""
        for _ in answers:
            yield Grade(float(self._luck.random() < 0.5), "")


class Asleep:
    """An engine that samples nothing, and returns what is as long as a 7B's samples."""

    shares_parameters = True

    def __init__(self, tokenizer: Any, proposals: list[str]) -> None:
        self.tokenizer = tokenizer
        self._proposals = cycle(proposals)
        self._thought = "I follow the program line by line and keep every value. " * 120
        self._noise = np.random.default_rng(2)

    def stream(self, requests: Sequence[TokenRequest]) -> Iterator[tuple[int, Rollout]]:
        """Yield tokens."""
        for i, request in enumerate(requests):
            ids: Any = self._noise.integers(1 << 17, size=TOKENS, dtype=np.int32)
            logprobs: Any = self._noise.random(TOKENS)
            yield i, Rollout(request.adapter, request.prompt_ids, ids, logprobs, "stop")

    def completion(self, rollout: Rollout) -> SimpleNamespace:
        """Return a text: a teacher's proposal, or an answer."""
        proposes = (rollout.adapter or "s").startswith("t")
        end = next(self._proposals) if proposes else "```output\n5\n```"
        return SimpleNamespace(text=f"{self._thought}{self._noise.random()}\n{end}")


class Sleeper:
    """Many workers that learn nothing, in one process."""

    def __init__(self, config: RunConfig) -> None:
        template = template_named(config.template, config.base)
        texts = [template.proposal_text(task) for task in tasks()]
        engine: Any = Asleep(tokenizer(), texts)
        self._writers = LocalWriters(engine, template, config.rollout)

    def propose(self, drafts: bytes) -> Any:
        """Return proposals."""
        return Done(pack_written(self._writers.proposals(pickle.loads(drafts))), 0.0, 0.0)

    def solve(self, trials: bytes) -> Any:
        """Return answers."""
        return Done(pack_written(self._writers.answers(pickle.loads(trials))), 0.0, 0.0)

    def update(self, samples: Any, lr_factor: float) -> Any:
        """Return statistics and states."""
        names = dict.fromkeys(sample.member for sample in read_samples(samples))
        stats = {name: StatsSum().stats(None, False, {}) for name in names}
        return Done((stats, [state(name) for name in names]), 0.0, 0.0)


def tokenizer() -> Any:
    """The built-in model's."""
    return load_base_model("nano", torch.device("cpu"), "float32").tokenizer


def adapter() -> Adapter:
    """An adapter of a few numbers, for the checkpoint before the first step."""
    config = AdapterConfig.new(r=1, lora_alpha=1, target_modules=("q_proj",))
    return Adapter(config, {"q_proj": Slot(torch.zeros(1, 2), torch.zeros(2, 1), 1.0)})


def state(name: str) -> MemberState:
    """A state without weights."""
    return MemberState(name, {}, {"step": 0, "learning_rate": 0.0}, {})


class Sleeping:
    """`workers.actors.Actors`, but what it starts sleeps."""

    deaths: tuple[type[Exception], ...] = ()

    def __init__(self, ray: Any, names: Sequence[str], config: RunConfig) -> None:
        self._ray, self._names = ray, list(names)
        host = ray.remote(num_cpus=1, max_concurrency=1)(Sleeper)
        self._hosts = [host.remote(config) for _ in range(HOSTS)]

    def start(self, deals: Sequence[tuple[int, ...]]) -> tuple[list[Share], About]:
        """Return shares of the processes that are there."""
        hosts = cycle(self._hosts)
        shares = [Share(f"worker-{i}", self._bed(next(hosts), d), d) for i, d in enumerate(deals)]
        return shares, About("here", 0, {}, "", tokenizer(), None, 1 << 20, True)

    def _bed(self, host: Any, places: Sequence[int]) -> Any:
        """What stands for the actor of a worker with these members."""
        names = [self._names[place] for place in places]

        def at_once(value: Any) -> SimpleNamespace:
            return SimpleNamespace(remote=lambda *_: self._ray.put(Done(value, 0.0, 0.0)))

        return SimpleNamespace(
            propose=host.propose,
            solve=host.solve,
            update=host.update,
            states=at_once([state(name) for name in names]),
            export=at_once(adapter()),
        )

    def answer(self, ref: Any, share: Share) -> Any:
        """Wait for an answer."""
        done: Done[Any] = self._ray.get(ref)
        return done.result

    def first(self, refs: Sequence[Any]) -> Any:
        """Wait until one of these is answered, and return it."""
        (ref,), _ = self._ray.wait(list(refs), num_returns=1)
        return ref

    def end(self, shares: Sequence[Share]) -> None:
        """Nothing ends."""


class Processor(Progress):
    """Notes the processor's seconds of this process in each phase."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._task = self._bar.add_task("", total=1, phase="")
        self._found: dict[str, float] = {}
        self._now, self._since = "", 0.0

    def phase(self, step: int, phase: str) -> None:
        """Begin a phase."""
        self.stop()
        self._now, self._since = phase, time.process_time()

    def stop(self) -> dict[str, float]:
        """End the phase; return the seconds of all."""
        if self._now:
            self._found[self._now] = time.process_time() - self._since
        self._now = ""
        return self._found


if __name__ == "__main__":
    main()
