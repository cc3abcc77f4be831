"""What a population costs on a large base: sampling, learning and swapping, in seconds and memory.

    python benchmarks/population_cost.py BASE --members 8 [--engine vllm] [--rows 32]

Opens learner and engine as the preset 7b-4t4s does. Sampled and learnt from are `--rows` rows in
all, of one member and of all of them (equal tokens), and as many rows for each member. Every row
has `--prompt` random tokens and exactly `--completion` more: end tokens are not asked for. Seconds
are of the wall; memory is that of the whole device, and the peak of torch in the learner's process.
A population's step is to be compared with that of a process with `--members 1`. Each row is printed
as soon as it is measured, with `--json` as a JSON object.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from benchmarking import Row, parser, show

from lora_evo.model import Request, Rollout, stream
from selfplay import TrainingSample, load_preset
from selfplay.members.population import open_learner
from selfplay.members.weight_sync import send

GB = 1e9


def measured(say: Callable[[Row], None], what: str, tokens: int, work: Callable[[], Any]) -> Any:
    """Do the work, and say its seconds, tokens a second and memory."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    result = work()
    if gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    row = {"what": what, "seconds": seconds, "tokens/s": tokens / seconds}
    if gpu:
        free, total = torch.cuda.mem_get_info()
        row |= {"device GB": (total - free) / GB}
        row |= {"learner's peak GB": torch.cuda.max_memory_allocated() / GB}
    say(row)
    return result


def main() -> None:
    options = parser(__doc__, members=8, rows=32, prompt=512, completion=1024, share=0.45)
    options.add_argument("base")
    options.add_argument("--engine", choices=("vllm", "hf"), default="vllm")
    options.add_argument("--set", action="append", default=[])
    options.add_argument("--json", action="store_true")
    a = options.parse_args()
    half = max(1, a.members // 2)
    config = load_preset(
        "7b-4t4s",
        f"base={a.base}",
        f"engine={a.engine}",
        *(("mode=azr",) if a.members == 1 else (f"teachers={half}", f"students={half}")),
        f"rollout.max_rows={a.rows * a.members}",
        f"vllm.max_model_len={a.prompt + a.completion}",
        f"vllm.gpu_memory_utilization={a.share}",
        *a.set,
    )
    rows: list[Row] = []

    def say(row: Row) -> None:
        rows.append(row)
        if a.json:
            print(json.dumps(row), flush=True)
        else:
            show([row], head=len(rows) == 1)

    learner, engine = measured(say, "open", 0, lambda: open_learner(config))
    engine.end_tokens = ()  # every row is as long as it may be
    weight_sync = partial(send, learner, engine, {}, config.dtype)
    measured(say, "sync all members", 0, lambda: weight_sync(0))

    def ids(seed: int, count: int) -> tuple[int, ...]:
        return tuple(stream(seed).integers(10, learner.model.config.vocab_size, count).tolist())

    def sample(names: Sequence[str | None], count: int) -> list[Any]:
        return engine.generate(
            [
                Request(ids(i, a.prompt), names[i % len(names)], a.completion, 1.0, i)
                for i in range(count)
            ]
        )

    def update(names: Sequence[str], count: int) -> None:
        learner.update(
            [
                TrainingSample(
                    (name := names[i % len(names)]),
                    Rollout(
                        name,
                        ids(i, a.prompt),
                        ids(9999 + i, a.completion),
                        (-10.0,) * a.completion,
                        "stop",
                    ),
                    1.0 if i % 2 else -1.0,
                )
                for i in range(count)
            ]
        )

    members, each = learner.members, a.members * a.rows
    sample(members[:1], 2)  # compiles
    cases: dict[str, tuple[Sequence[str | None], int]] = {
        "sample: base": ((None,), a.rows),
        "sample: one member": (members[:1], a.rows),
        "sample: all members": (members, a.rows),
        "sample: all, rows each": (members, each),
    }
    for what, case in cases.items():
        rollouts = measured(say, what, case[1] * a.completion, lambda case=case: sample(*case))
        assert all(len(rollout.completion_ids) == a.completion for rollout in rollouts)
    measured(say, "release", 0, engine.release)
    update(members, len(members))  # warms up
    for what, (names, count) in {
        "update: one member": (members[:1], a.rows),
        "update: all members": (members, a.rows),
        "update: all, rows each": (members, each),
    }.items():
        read = count * (a.prompt + a.completion)
        measured(say, what, read, lambda names=names, count=count: update(names, count))
    measured(say, "restore", 0, engine.restore)
    measured(say, "sync what changed", 0, lambda: weight_sync(1))
    engine.close()


if __name__ == "__main__":
    main()
