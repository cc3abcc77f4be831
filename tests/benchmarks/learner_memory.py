"""Memory and time of one update with long completions: the plain learner against saving ones.

    OMP_NUM_THREADS=1 python tests/benchmarks/learner_memory.py MODEL [--completion 2048] [--json]

MODEL is a folder or hub name of a base model; prompts and completions are random tokens, the rows
dealt to several members in turn. Each variant is a process of its own on the CPU in float32, after
one small update as warm-up. Memory is the largest resident set above that of the loaded model and
its adapters. Time is CPU seconds of the process. `plain` keeps all activations and the whole table
of logits; `fitting` has chunks of logits and gradient checkpointing, all with one row at a time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch

from evals.engine.base_model import load_base_model
from evals.engine.streams import stream
from selfplay.learning.learner import Learner, LearnerConfig, TrainingSample

WHOLE = {"logits_chunk_tokens": 1 << 30}
VARIANTS = {
    "plain": WHOLE,
    "fitting": {"gradient_checkpointing": True},
    "chunks only": {},
    "checkpointing only": WHOLE | {"gradient_checkpointing": True},
}


def resident(field: str) -> float:
    """A figure of the kernel's about this process, in MB."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s*(\d+) kB", text, re.MULTILINE)[1]) / 1024


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
    before, start = resident("VmRSS"), time.process_time()
    stats = learner.update(rows)
    seconds = time.process_time() - start
    assert all(stats[row.member].stepped for row in rows)
    return {
        "MB": resident("VmHWM") - before,
        "CPU s": seconds,
        "norm": sum(s.grad_norm or 0.0 for s in stats.values()),
    }


def table(a: argparse.Namespace, heap: bool) -> dict[str, dict[str, float]]:
    """Every variant in a process of its own, best time and memory of the rounds."""
    arguments = ("model", "completion", "prompt", "rows", "members", "r")
    command = [sys.executable, __file__, a.model]
    command += [f"--{name}={getattr(a, name)}" for name in arguments[1:]]
    # Large blocks are handed back at once, so that the figure is that of the tensors.
    surroundings = dict(os.environ) if heap else os.environ | {"MALLOC_MMAP_THRESHOLD_": "262144"}
    found: dict[str, dict[str, float]] = {}
    for _ in range(a.rounds):
        for name in dict.fromkeys(["plain", *a.variants]):
            done = subprocess.run(
                [*command, "--variant", name],
                env=surroundings,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            row = json.loads(done.stdout.splitlines()[-1])
            print(name, row, file=sys.stderr, flush=True)
            best = found.setdefault(name, row)
            found[name] = {key: min(best[key], row[key]) for key in row}
    plain = dict(found["plain"])
    for row in found.values():
        row["memory of plain"] = row["MB"] / plain["MB"]
        row["speed of plain"] = plain["CPU s"] / row["CPU s"]
        row["norm"] /= plain["norm"]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--completion", type=int, default=2048)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--r", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="plain always runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--heap", action="store_true", help="leave the C library's allocator alone")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.variant:
        print(json.dumps(measure(a)))
        return
    found = table(a, a.heap)
    if a.json:
        print(json.dumps(found, indent=1))
        return
    print("| learner | MB above the model | of plain | CPU s | speed of plain | gradient norm |")
    print("|---|---|---|---|---|---|")
    for name, row in found.items():
        print(
            f"| {name} | {row['MB']:.0f} | {row['memory of plain']:.2f} | {row['CPU s']:.0f} | "
            f"{row['speed of plain']:.2f} | {row['norm']:.6f} |"
        )


if __name__ == "__main__":
    main()
