"""The two engines on one machine: tokens a second with four adapters, swaps, and agreement.

    python tests/benchmarks/engines.py [--base nano] [--dtype float32] [--rows 64] [--tokens 112]

Needs vLLM (`make test-vllm` makes an environment that has it). On a CPU with one thread, and in
seconds of the processor, so that a busy machine changes them less; on a GPU in seconds of the wall.
They are the best of the rounds; what to compare are the ratios of one run. The last table compares
the engines' greedy tokens, and vLLM's log-probabilities with the learner's own.
"""

import time
from collections.abc import Callable
from random import Random

import torch
from benchmarking import parser

from lora_evo.model import (
    Engine,
    HFEngine,
    Rollout,
    TokenRequest,
    choose_device,
    linear_shapes,
    load_base_model,
    stream,
)
from selfplay.config import read_config
from selfplay.learning.learner import Learner
from selfplay.population import open_vllm
from selfplay.settings import override, read_preset

MEMBERS = ("t0", "t1", "s0", "s1")
PROMPT = 24
"""Tokens."""
CLOCK = time.perf_counter if torch.cuda.is_available() else time.process_time


def main() -> None:
    """Print both tables."""
    options = parser(__doc__)
    options.add_argument("--base", default="nano")
    options.add_argument("--dtype", default="float32")
    options.add_argument("--share", type=float, default=0.3, help="of a GPU's memory, for vLLM")
    options.add_argument("--rows", type=int, default=64)
    options.add_argument("--tokens", type=int, default=112)
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    data = read_preset("nano") | {"engine": "vllm", "base": arguments.base}
    data |= {"dtype": arguments.dtype, "vllm": {"gpu_memory_utilization": arguments.share}}
    override(data, f"vllm.max_model_len={PROMPT + arguments.tokens}")
    config = read_config(data)
    base = load_base_model(arguments.base, choose_device("auto"), arguments.dtype)
    shapes = linear_shapes(base.model)
    learner = Learner(base.model, 0, MEMBERS, config.learner, seed=1, base_model=arguments.base)
    vllm = open_vllm(config, base, shapes, len(MEMBERS))
    hf = HFEngine(learner.adapters, base.tokenizer, max_rows=512, merge_rows=64)
    try:
        swap(learner, vllm, arguments.rounds)
        throughput(hf, vllm, arguments.rows, arguments.tokens, arguments.rounds)
        agreement(learner, hf, vllm, arguments.rows, arguments.tokens)
    finally:
        vllm.close()


def swap(learner: Learner, vllm: Engine, rounds: int) -> None:
    """Milliseconds to give the engine four new members; the weights really change."""
    best = dict.fromkeys(("export", "put", "check"), float("inf"))
    for version in range(rounds + 1):
        with torch.no_grad():
            for layer in learner.adapters.layers.values():
                for place, up in enumerate(layer.lora_B):
                    noise = stream(100 * version + place).standard_normal(tuple(up.shape))
                    up.add_(torch.from_numpy(0.02 * noise).to(up))
        exported = timed(best, "export", lambda: [learner.export(m) for m in MEMBERS])
        timed(best, "put", lambda v=version, found=exported: put(vllm, v, found))
        probe = [TokenRequest(m, tuple(range(1, 9)), 1, 0.0) for m in (None, *MEMBERS)]
        timed(best, "check", lambda asked=probe: vllm.rollouts(asked))
    print(f"\n| swapping {len(MEMBERS)} adapters | ms |\n|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1000 * seconds:.0f} |")
    print(f"| a step | {1000 * sum(best.values()):.0f} |")


def put(vllm: Engine, version: int, adapters: list) -> None:
    """Put one version of every member."""
    for member, adapter in zip(MEMBERS, adapters, strict=True):
        vllm.put_adapter(member, version, adapter)


def timed(best: dict[str, float], name: str, work: Callable[[], list]) -> list:
    """Do the work and keep its seconds where they are the fewest so far."""
    start = CLOCK()
    result = work()
    best[name] = min(best[name], CLOCK() - start)
    return result


def throughput(hf: Engine, vllm: Engine, rows: int, tokens: int, rounds: int) -> None:
    """Tokens a second of both engines on the same requests."""
    prompts = drawn_prompts(rows)
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
                start = CLOCK()
                drawn = sum(len(r.completion_ids) for r in engine.rollouts(asked))
                best = max(best, drawn / (CLOCK() - start))
            rates.append(best)
        print(f"| {case} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[1] / rates[0]:.2f} |")


def agreement(learner: Learner, hf: Engine, vllm: Engine, rows: int, tokens: int) -> None:
    """Greedy tokens of both engines, and vLLM's log-probabilities against the learner's."""
    names = (None, *MEMBERS)
    prompts = drawn_prompts(rows)

    def asked(temperature: float) -> list[TokenRequest]:
        return [
            TokenRequest(names[i % len(names)], ids, tokens, temperature, i)
            for i, ids in enumerate(prompts)
        ]

    both = zip(hf.rollouts(asked(0.0)), vllm.rollouts(asked(0.0)), strict=True)
    same = sum(a.completion_ids == b.completion_ids for a, b in both)
    apart = torch.cat([differences(learner, rollout) for rollout in vllm.rollouts(asked(1.0))])
    print(
        "\n| greedy rows equal | log-probability apart, mean | 99.9 % | most |\n|---|---|---|---|"
    )
    print(
        f"| {same} of {rows} | {apart.mean():.2g} | {apart.quantile(0.999):.2g} | "
        f"{apart.max():.2g} |"
    )


@torch.no_grad()
def differences(learner: Learner, rollout: Rollout) -> torch.Tensor:
    """How far the log-probability of each sampled token is from the learner's own."""
    device = next(learner.model.parameters()).device
    whole = torch.tensor([rollout.prompt_ids + rollout.completion_ids], device=device)
    with learner.adapters.route([learner.adapters.index(rollout.adapter)]):
        logits = learner.model(input_ids=whole).logits[0, len(rollout.prompt_ids) - 1 : -1]
    drawn = whole[0, len(rollout.prompt_ids) :, None]
    own = torch.log_softmax(logits.float(), -1).gather(1, drawn)[:, 0]
    return (own.cpu() - torch.tensor(rollout.logprobs)).abs()


def drawn_prompts(rows: int) -> list[tuple[int, ...]]:
    """Random prompts."""
    rng = Random(0)
    return [tuple(rng.randrange(2, 400) for _ in range(PROMPT)) for _ in range(rows)]


if __name__ == "__main__":
    main()
