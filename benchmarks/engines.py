"""The two engines on one machine: tokens a second with four adapters, and swaps.

    python benchmarks/engines.py [--base nano] [--dtype float32] [--rows 64] [--tokens 112]

Needs vLLM (`make test-vllm` makes an environment that has it). On a CPU with one thread, and in
seconds of the processor, so that a busy machine changes them less; on a GPU in seconds of the wall.
They are the best of the rounds; what to compare are the ratios of one run.
"""

import time
from collections.abc import Sequence
from random import Random
from typing import Any

import torch
from benchmarking import best_of, parser, show

from lora_evo.model import (
    Engine,
    HFEngine,
    Request,
    choose_device,
    linear_shapes,
    load_base_model,
    stream,
)
from selfplay import Learner, load_preset
from selfplay.members.population import open_vllm

MEMBERS = ("t0", "t1", "s0", "s1")
PROMPT = 24
"""Tokens."""
CLOCK = time.perf_counter if torch.cuda.is_available() else time.process_time


class Swap:
    """Gives the engine four new members, whose weights really change."""

    def __init__(self, learner: Learner, vllm: Engine) -> None:
        self.learner, self.vllm, self.version = learner, vllm, 0

    @torch.no_grad()
    def export(self) -> None:
        self.version += 1
        for layer in self.learner.adapters.layers.values():
            for place, up in enumerate(layer.lora_B):
                noise = stream(100 * self.version + place).standard_normal(tuple(up.shape))
                up.add_(torch.from_numpy(0.02 * noise).to(up))
        self.adapters = [self.learner.export(m) for m in MEMBERS]

    def put(self) -> None:
        for member, adapter in zip(MEMBERS, self.adapters, strict=True):
            self.vllm.put_adapter(member, self.version, adapter)

    def check(self) -> None:
        batch = [Request(tuple(range(1, 9)), m, 1) for m in (None, *MEMBERS)]
        self.vllm.generate(batch)


def requests(names: Sequence[str | None], rows: int, tokens: int) -> list[Request]:
    """The same random prompts for any names."""
    rng = Random(0)
    prompts = [tuple(rng.randrange(2, 400) for _ in range(PROMPT)) for _ in range(rows)]
    return [Request(ids, names[i % len(names)], tokens, 1.0, i) for i, ids in enumerate(prompts)]


def compare(learner: Learner, hf: Engine, vllm: Engine, args: Any) -> None:
    """Print both tables."""
    swap = Swap(learner, vllm)
    best = best_of(
        args.rounds, {"export": swap.export, "put": swap.put, "check": swap.check}, CLOCK
    )
    best["a step"] = sum(best.values())
    show([{f"swapping {len(MEMBERS)} adapters": n, "ms": 1000 * s} for n, s in best.items()])
    cases = {"4 adapters": MEMBERS, "1 adapter": MEMBERS[:1], "the base alone": (None,)}
    table = []
    for case, names in cases.items():
        batch, rates = requests(names, args.rows, args.tokens), []
        for engine in (hf, vllm):
            drawn = sum(len(r.completion_ids) for r in engine.generate(batch))
            work = {"": lambda engine=engine, batch=batch: engine.generate(batch)}
            rates.append(drawn / best_of(args.rounds, work, CLOCK)[""])
        table.append({"": case, "hf": rates[0], "vllm": rates[1], "ratio": rates[1] / rates[0]})
    show(table)


def main() -> None:
    options = parser(__doc__, base="nano", dtype="float32", rows=64, tokens=112, rounds=3)
    options.add_argument("--share", type=float, default=0.3, help="of a GPU's memory, for vLLM")
    args = options.parse_args()
    torch.set_num_threads(1)
    serving = (
        f"vllm.gpu_memory_utilization={args.share}",
        f"vllm.max_model_len={PROMPT + args.tokens}",
    )
    settings = ("engine=vllm", f"base={args.base}", f"dtype={args.dtype}", *serving)
    config = load_preset("nano", *settings)
    base = load_base_model(args.base, choose_device("auto"), args.dtype)
    shapes = linear_shapes(base.model)
    learner = Learner(base.model, MEMBERS, config.learner, seed=1)
    hf = HFEngine(learner.adapters, base.tokenizer, max_rows=512)
    vllm = open_vllm(config, base, shapes, len(MEMBERS))
    try:
        compare(learner, hf, vllm, args)
    finally:
        vllm.close()


if __name__ == "__main__":
    main()
