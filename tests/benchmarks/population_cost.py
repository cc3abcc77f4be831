"""What a population costs on a large base: sampling, learning and swapping, in seconds and memory.

    python tests/benchmarks/population_cost.py BASE --members 8 [--engine vllm] [--rows 32]

Opens learner and engine as the preset 7b-4t4s does. Sampled and learnt from are `--rows` rows in
all, dealt to one member and to all of them (equal tokens), and as many rows for each member. Every
row has `--prompt` random tokens and exactly `--completion` more: end tokens are not asked for.
Seconds are of the wall; memory is that of the whole device, and the peak of torch in the learner's
process. A population's step is to be compared with that of a process with `--members 1`.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarking import Row, parser, show

from lora_evo.model import TokenRequest, stream
from selfplay.config import Config, read_config
from selfplay.learning.batch import TrainingSample
from selfplay.population import open_learner
from selfplay.settings import override, read_preset
from selfplay.weight_sync import WeightSync

GB = 1e9


def configuration(a: argparse.Namespace) -> Config:
    """The preset with this base and so many members."""
    data: dict[str, Any] = read_preset("7b-4t4s")
    half = max(1, a.members // 2)
    longest = a.prompt + a.completion
    for assignment in (
        f"base={a.base}",
        f"engine={a.engine}",
        *(("mode=azr",) if a.members == 1 else (f"teachers={half}", f"students={half}")),
        f"rollout.max_rows={a.rows * a.members}",
        f"vllm.max_model_len={longest}",
        f"vllm.gpu_memory_utilization={a.share}",
        *a.set,
    ):
        override(data, assignment)
    return read_config(data)


def main() -> None:
    """Measure, and print a row for every measurement."""
    options = parser(__doc__)
    options.add_argument("base")
    options.add_argument("--members", type=int, default=8)
    options.add_argument("--engine", choices=("vllm", "hf"), default="vllm")
    options.add_argument("--rows", type=int, default=32)
    options.add_argument("--prompt", type=int, default=512)
    options.add_argument("--completion", type=int, default=1024)
    options.add_argument("--share", type=float, default=0.45)
    options.add_argument("--set", action="append", default=[])
    a = options.parse_args()
    rows: list[Row] = []

    def note(what: str, tokens: int, work: Callable[[], object]) -> Any:
        """Do the work; write down seconds, tokens a second and memory."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        found = work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        row = {"what": what, "seconds": seconds, "tokens/s": tokens / seconds} | memory()
        rows.append(row)
        return found

    config = configuration(a)
    learner, engine = note("open", 0, lambda: open_learner(config))
    vocabulary = learner.model.config.vocab_size
    members = learner.members
    engine.end_tokens = ()  # every row is as long as it may be
    weight_sync = WeightSync(learner, engine, config.dtype)
    note("publish all members", 0, lambda: weight_sync(0))

    def asked(names: list[str | None], count: int) -> list[TokenRequest]:
        return [
            TokenRequest(names[i % len(names)], ids(i, a.prompt, vocabulary), a.completion, 1.0, i)
            for i in range(count)
        ]

    def sample(what: str, names: list[str | None], count: int) -> None:
        requests = asked(names, count)
        rollouts = note(what, count * a.completion, lambda: engine.rollouts(requests))
        assert all(len(r.completion_ids) == a.completion for r in rollouts)

    def samples(names: list[str], count: int) -> list[TrainingSample]:
        return [
            TrainingSample(
                names[i % len(names)],
                ids(i, a.prompt, vocabulary),
                ids(9999 + i, a.completion, vocabulary),
                (-10.0,) * a.completion,
                1.0 if i % 2 else -1.0,
            )
            for i in range(count)
        ]

    engine.rollouts(asked([members[0]], 2))  # compiles
    everybody, each = list(members), a.members * a.rows
    sample("sample: base", [None], a.rows)
    sample("sample: one member", [members[0]], a.rows)
    if a.members > 1:
        sample("sample: all members", everybody, a.rows)
        sample("sample: all, rows each", everybody, each)
    note("release", 0, engine.release)
    learner.update(samples(everybody, len(everybody)))  # warms up
    read = a.rows * (a.prompt + a.completion)
    note("update: all members", read, lambda: learner.update(samples(everybody, a.rows)))
    if a.members > 1:
        more = read * a.members
        note("update: all, rows each", more, lambda: learner.update(samples(everybody, each)))
    note("restore", 0, engine.restore)
    note("publish what changed", 0, lambda: weight_sync(1))
    engine.close()
    show(rows)


def memory() -> dict[str, float]:
    """Gigabytes on the device, of all processes, and at most in this one's tensors."""
    if not torch.cuda.is_available():
        return {"device GB": 0.0, "learner's peak GB": 0.0}
    free, total = torch.cuda.mem_get_info()
    return {
        "device GB": (total - free) / GB,
        "learner's peak GB": torch.cuda.max_memory_allocated() / GB,
    }


def ids(seed: int, count: int, vocabulary: int) -> tuple[int, ...]:
    """Random tokens."""
    return tuple(stream(seed).integers(10, vocabulary, count).tolist())


if __name__ == "__main__":
    main()
