"""Memory and time of one update with long completions: the plain learner against saving ones.

    OMP_NUM_THREADS=1 python tests/benchmarks/learner_memory.py MODEL [--completion 2048] [--rows 2]
        [--variants NAME ...]

MODEL is a folder or hub name of a base model; prompts and completions are random tokens, the rows
dealt to several members in turn. Each variant is a process of its own on the CPU in float32, after
one small update as warm-up. Memory is the largest resident set above that of the loaded model and
its adapters. Time is CPU seconds of the process. `plain` keeps all activations and the whole table
of logits; `fitting` has chunks of logits and gradient checkpointing, all with one row at a time.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from benchmarking import Row, alone, memory, parser, show

from lora_evo.model import load_base_model, stream
from selfplay.learning.learner import Learner, LearnerConfig, TrainingSample

WHOLE = {"logits_chunk_tokens": 1 << 30}
VARIANTS = {
    "plain": WHOLE,
    "fitting": {"gradient_checkpointing": True},
    "chunks only": {},
    "checkpointing only": WHOLE | {"gradient_checkpointing": True},
}


def sample(member: str, seed: int, prompt: int, completion: int, vocabulary: int) -> TrainingSample:
    """A row of random tokens."""
    draw = stream(seed)
    ids = draw.integers(0, vocabulary, prompt + completion).tolist()
    return TrainingSample(
        member,
        tuple(ids[:prompt]),
        tuple(ids[prompt:]),
        (-10.0,) * completion,
        float(draw.standard_normal()),
    )


def measure(a: argparse.Namespace) -> dict[str, float]:
    """Memory and time of one update of the variant."""
    base = load_base_model(a.model, torch.device("cpu"), "float32")
    members = [f"m{i}" for i in range(a.members)]
    config = LearnerConfig(
        r=a.r, lora_alpha=2.0 * a.r, noise_groups=0, micro_batch_tokens=1, **VARIANTS[a.variant]
    )
    learner = Learner(base.model, 0, members, config, seed=1)
    size = base.model.config.vocab_size
    learner.update([sample(m, i, 8, 8, size) for i, m in enumerate(members)])
    rows = [
        sample(members[i % len(members)], 100 + i, a.prompt, a.completion, size)
        for i in range(a.rows)
    ]
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to the present
    before, start = memory("VmRSS"), time.process_time()
    stats = learner.update(rows)
    seconds = time.process_time() - start
    assert all(stats[row.member].stepped for row in rows)
    return {
        "MB": (memory("VmHWM") - before) / 1e6,
        "CPU s": seconds,
        "norm": sum(s.grad_norm or 0.0 for s in stats.values()),
    }


def main() -> None:
    """Measure every variant in a process of its own, and print."""
    options = parser(__doc__)
    options.add_argument("model")
    options.add_argument("--completion", type=int, default=2048)
    options.add_argument("--prompt", type=int, default=64)
    options.add_argument("--rows", type=int, default=2)
    options.add_argument("--members", type=int, default=2)
    options.add_argument("--r", type=int, default=8)
    options.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options.add_argument(
        "--heap", action="store_true", help="leave the C library's allocator alone"
    )
    options.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    a = options.parse_args()
    if a.variant:
        print(json.dumps(measure(a)))
        return
    # Large blocks are handed back at once, so that the figure is that of the tensors.
    env = {} if a.heap else {"MALLOC_MMAP_THRESHOLD_": "262144"}
    sizes = [
        f"--{name}={getattr(a, name)}" for name in ("completion", "prompt", "rows", "members", "r")
    ]
    rows: list[Row] = []
    for name in dict.fromkeys(["plain", *a.variants]):
        row = alone(__file__, a.model, *sizes, "--variant", name, env=env)
        plain = rows[0] if rows else row
        row |= {
            "of plain": row["MB"] / plain["MB"],
            "speed of plain": plain["CPU s"] / row["CPU s"],
        }
        rows.append({"learner": name, **row})
    show(rows)


if __name__ == "__main__":
    main()
