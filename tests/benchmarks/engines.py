"""The two engines on one machine: tokens a second with four adapters, and what a swap costs.

    python tests/benchmarks/engines.py [--rows 64] [--tokens 112] [--rounds 3]

On the nano model, on a CPU, with one thread; needs vLLM (`make test-vllm` makes an environment that
has it). Seconds are those of the processor, so that a busy machine changes them less, and the best
of the rounds; what to compare are the ratios of one run.
"""

import argparse
import time
from collections.abc import Callable
from random import Random

import torch

from evals.engine.base_model import load_base_model
from evals.engine.generation import StackedEngine
from evals.engine.rollout import TokenRequest
from evals.engine.rollout_engine import RolloutEngine
from evals.engine.sampling import stream
from evals.vllm_engine.adapter_check import linear_shapes
from selfplay.config.preset import read_preset
from selfplay.config.run_config import read_config
from selfplay.learning.learner import Learner
from selfplay.population.vllm_sampling import open_vllm

MEMBERS = ("t0", "t1", "s0", "s1")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=112)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = read_config(read_preset("nano") | {"engine": "vllm"})
    base = load_base_model("nano", torch.device("cpu"), "float32")
    shapes = linear_shapes(base.model)
    learner = Learner(base.model, 0, MEMBERS, config.learner, seed=1, base_model="nano")
    vllm = open_vllm(config, base, shapes, len(MEMBERS))
    hf = StackedEngine(learner.adapters, base.tokenizer, max_rows=512, merge_rows=64)
    try:
        swap(learner, vllm, arguments.rounds)
        throughput(hf, vllm, arguments.rows, arguments.tokens, arguments.rounds)
    finally:
        vllm.close()


def swap(learner: Learner, vllm: RolloutEngine, rounds: int) -> None:
    """Milliseconds to give the engine four new members; the weights really change."""
    best = dict.fromkeys(("export", "put", "check"), float("inf"))
    for version in range(rounds + 1):
        with torch.no_grad():
            for layer in learner.adapters.layers.values():
                for place, up in enumerate(layer.lora_B):
                    noise = stream(100 * version + place).standard_normal(tuple(up.shape))
                    up.add_(torch.from_numpy(0.02 * noise))
        exported = timed(best, "export", lambda: [learner.export(m) for m in MEMBERS])
        timed(best, "put", lambda v=version, found=exported: put(vllm, v, found))
        probe = [TokenRequest(m, tuple(range(1, 9)), 1, 0.0) for m in (None, *MEMBERS)]
        timed(best, "check", lambda asked=probe: vllm.rollouts(asked))
    print(f"\n| swapping {len(MEMBERS)} adapters | CPU ms |\n|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1000 * seconds:.0f} |")
    print(f"| a step | {1000 * sum(best.values()):.0f} |")


def put(vllm: RolloutEngine, version: int, adapters: list) -> None:
    """Put one version of every member."""
    for member, adapter in zip(MEMBERS, adapters, strict=True):
        vllm.put_adapter(member, version, adapter)


def timed(best: dict[str, float], name: str, work: Callable[[], list]) -> list:
    """Do the work and keep its CPU seconds where they are the fewest so far."""
    start = time.process_time()
    result = work()
    best[name] = min(best[name], time.process_time() - start)
    return result


def throughput(hf: RolloutEngine, vllm: RolloutEngine, rows: int, tokens: int, rounds: int) -> None:
    """Tokens per CPU second of both engines on the same requests."""
    rng = Random(0)
    prompts = [tuple(rng.randrange(2, 400) for _ in range(24)) for _ in range(rows)]
    cases = {"4 adapters": MEMBERS, "1 adapter": MEMBERS[:1], "the base alone": (None,)}
    print(
        f"\n| {rows} rows of at most {tokens} tokens | hf | vllm | vllm / hf |\n|---|---|---|---|"
    )
    for case, names in cases.items():
        asked = [
            TokenRequest(names[i % len(names)], ids, tokens, 1.0, i)
            for i, ids in enumerate(prompts)
        ]
        rates = []
        for engine in (hf, vllm):
            best = 0.0
            for _ in range(rounds):
                start = time.process_time()
                drawn = sum(len(r.completion_ids) for r in engine.rollouts(asked))
                best = max(best, drawn / (time.process_time() - start))
            rates.append(best)
        print(f"| {case} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[1] / rates[0]:.2f} |")


if __name__ == "__main__":
    main()
