"""Memory and time of one update with long completions: the plain learner against saving ones.

    OMP_NUM_THREADS=1 python benchmarks/learner_memory.py MODEL [--completion 2048] [--rows 2]
        [--variants NAME ...]

MODEL is a folder or hub name of a base model; prompts and completions are random tokens, the rows
given to several members in turn. Each variant is a process of its own on the CPU in float32, after
one small update as warm-up. Memory is the largest resident set above that of the loaded model and
its adapters. Time is CPU seconds of the process. `plain` keeps all activations and the whole table
of logits; `fitting` has chunks of logits and gradient checkpointing, all with one row at a time.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from benchmarking import Row, alone, memory, parser, show

from lora_evo.model import Rollout, load_base_model, stream
from selfplay import Learner, TrainingSample
from selfplay.learning.learner import LearnerConfig

WHOLE = {"logits_chunk_tokens": 1 << 30}
VARIANTS = {
    "plain": WHOLE,
    "fitting": {"gradient_checkpointing": True},
    "chunks only": {},
    "checkpointing only": WHOLE | {"gradient_checkpointing": True},
}


def measure(a: argparse.Namespace) -> Row:
    """Memory and time of one update of the variant."""
    model = load_base_model(a.model, torch.device("cpu"), "float32").model
    members = [f"m{i}" for i in range(a.members)]
    config = LearnerConfig(r=a.r, lora_alpha=2.0 * a.r, micro_batch_tokens=1, **VARIANTS[a.variant])
    learner = Learner(model, members, config, seed=1)

    def sample(i: int, prompt: int, completion: int) -> TrainingSample:
        draw = stream(i)
        ids = draw.integers(0, model.config.vocab_size, prompt + completion).tolist()
        member, logprobs = members[i % len(members)], (-10.0,) * completion
        split = (tuple(ids[:prompt]), tuple(ids[prompt:]))
        rollout = Rollout(member, *split, logprobs, "stop")
        return TrainingSample(member, rollout, float(draw.standard_normal()))

    learner.update([sample(i, 8, 8) for i in range(len(members))])
    rows = [sample(len(members) * 100 + i, a.prompt, a.completion) for i in range(a.rows)]
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to the present
    before, start = memory("VmRSS"), time.process_time()
    stats = learner.update(rows)
    seconds = time.process_time() - start
    assert all(stats[row.member].stepped for row in rows)
    norm = sum(s.grad_norm or 0.0 for s in stats.values())
    return {"MB": (memory("VmHWM") - before) / 1e6, "CPU s": seconds, "norm": norm}


def main() -> None:
    options = parser(__doc__, completion=2048, prompt=64, rows=2, members=2, r=8)
    options.add_argument("model")
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
    rows: list[Row] = []
    for name in dict.fromkeys(["plain", *a.variants]):
        row = alone(__file__, *sys.argv[1:], "--variant", name, env=env)
        plain = rows[0] if rows else row
        shares = {"of plain": row["MB"] / plain["MB"], "speed": plain["CPU s"] / row["CPU s"]}
        rows.append({"learner": name, **row, **shares})
    show(rows)


if __name__ == "__main__":
    main()
