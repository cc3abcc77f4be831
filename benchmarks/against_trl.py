"""A step of policy gradient beside TRL's GRPOTrainer: processor seconds by phase, and memory.

    python benchmarks/against_trl.py BASE [--rounds 3] [--steps 2] [--cases short long]

BASE is a folder or hub name; the figures of docs/results.md are of SmolLM2-135M
(`small_model/small_model.py` makes it). Needs the environment of `make test-integrations`. Each
figure is a process of its own with one thread in float32; sides take turns in every round. A step
samples eight texts for each prompt from a LoRA of rank 16 on all linear layers, and learns from
them once, by the same reward of their tokens; no text ends before its limit, so both sides read and
sample equally many tokens. TRL keeps activations (its default recomputes them, which takes longer).
Both learn in batches of eight texts. `four` are four adapters of ours at once, each with as many
prompts as the one; its ratio is to four TRL trainers, and to four of ours in turn. The first step
of a process is left out. `products` are the products with the base's weights alone.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from statistics import fmean
from typing import Any

import torch
from benchmarking import Row, alone, memory, parser, show

TEXTS = 8
"""Of each prompt."""
CASES = {"short": (12, 64, 48), "long": (2, 256, 256)}
"""Prompts, tokens of each prompt, and tokens of each text."""
SIDES = ("trl", "one", "four", "products")
RATE = 1e-5
THEME = (
    "A train leaves the station with some passengers. At the first stop a third of them get off "
    "and eleven get on; at the second, half of those who are left get off. Write what is asked, "
    "step by step, and end with the number alone. "
)


def prompts(tokenizer: Any, case: str, members: int = 1) -> list[list[int]]:
    """Return the ids of the case's prompts for so many members, member by member, all different."""
    count, length, _ = CASES[case]
    texts = [f"Question {n}: {THEME * 8}" for n in range(1, count * members + 1)]
    return [tokenizer.encode(text, add_special_tokens=False)[:length] for text in texts]


def reward(ids: Sequence[int]) -> float:
    """Return a text's reward, which is as good as random."""
    return (sum(ids) % 97) / 97


def trl_steps(base: str, case: str, steps: int) -> list[Row]:
    """Return the seconds of each step of a GRPOTrainer."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    count, _, length = CASES[case]
    tokenizer = AutoTokenizer.from_pretrained(base)
    questions = [tokenizer.decode(ids) for ids in prompts(tokenizer, case)]
    rows: list[Row] = []

    class Timed(GRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            start = time.process_time()
            batch = super()._generate_and_score_completions(inputs)
            rows[-1]["sampling"] += time.process_time() - start
            rows[-1]["tokens"] += int(batch["completion_mask"].sum())
            return batch

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            rows.append({"tokens": 0, "sampling": 0.0, "step": -time.process_time()})

        def on_step_end(self, *_: Any, **__: Any) -> None:
            rows[-1]["step"] += time.process_time()

    def score(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return [reward(ids) for ids in completion_ids]

    with tempfile.TemporaryDirectory() as home:
        settings = GRPOConfig(
            output_dir=home,
            per_device_train_batch_size=TEXTS,
            gradient_accumulation_steps=count,
            num_generations=TEXTS,
            max_completion_length=length,
            generation_kwargs={"min_new_tokens": length},
            max_steps=steps,
            learning_rate=RATE,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Timed(
            model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
            processing_class=tokenizer,
            reward_funcs=score,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": questions}),
            peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
            callbacks=[Clock()],
        )
        trainer.train()
    return [row | {"update": row["step"] - row["sampling"]} for row in rows]


def our_steps(base: str, case: str, steps: int, members: int) -> list[Row]:
    """Return the seconds of each step of our engine and learner with so many adapters."""
    from lora_evo.model import Request, derive_seed
    from selfplay import TrainingSample, load_preset
    from selfplay.members.population import open_learner

    count, prompt, length = CASES[case]
    sizes = (
        ("mode=azr",) if members == 1 else (f"teachers={members // 2}", f"students={members // 2}")
    )
    config = load_preset(
        "smol",
        f"base={base}",
        "threads=1",
        *sizes,
        f"rollout.max_prompt_length={prompt}",
        f"rollout.max_completion_length={length}",
        f"rollout.max_rows={count * TEXTS}",
        f"learner.micro_batch_tokens={prompt + TEXTS * length}",
        f"learner.learning_rate={RATE}",
        "learner.entropy_coef=0",
    )
    learner, engine = open_learner(config)
    engine.end_tokens = ()
    texts = prompts(engine.tokenizer, case, members)

    def take_step(step: int) -> Row:
        start = time.process_time()
        requests = [
            Request(tuple(ids), learner.members[n // count], length, 1.0, derive_seed(step, n, k))
            for n, ids in enumerate(texts)
            for k in range(TEXTS)
        ]
        rollouts = engine.generate(requests)
        between = time.process_time()
        rewards = [reward(r.completion_ids) for r in rollouts]
        means = [fmean(rewards[i : i + TEXTS]) for i in range(0, len(rewards), TEXTS)]
        learner.update(
            [
                TrainingSample(request.adapter, rollout, score - means[i // TEXTS])
                for i, (request, rollout, score) in enumerate(
                    zip(requests, rollouts, rewards, strict=True)
                )
            ]
        )
        end = time.process_time()
        tokens = sum(len(r.completion_ids) for r in rollouts)
        spent = {"sampling": between - start, "step": end - start, "update": end - between}
        return {"tokens": tokens, **spent}

    return [take_step(step) for step in range(steps)]


def product_steps(base: str, case: str, steps: int) -> list[Row]:
    """Return the seconds of the products with the base's weights alone in a step of ours, in which
    the texts of a prompt share it."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    *body, head = [m.weight.detach() for m in model.modules() if isinstance(m, torch.nn.Linear)]
    count, prompt, length = CASES[case]

    def seconds(rows: int, weights: Sequence[torch.Tensor]) -> float:
        inputs = {width: torch.randn(rows, width) for width in {w.shape[1] for w in weights}}
        start = time.process_time()
        for weight in weights:
            inputs[weight.shape[1]] @ weight.T
        return time.process_time() - start

    def take_step() -> Row:
        texts, tokens = count * TEXTS, TEXTS * length
        decoding = length * seconds(texts, [*body, head])
        sampling = decoding + seconds(count * prompt, body)
        forward = seconds(prompt + tokens, body) + seconds(tokens, [head])
        backward = seconds(prompt + tokens, [w.T for w in body]) + seconds(tokens, [head.T])
        update = count * (forward + backward)
        made = texts * length
        return {"tokens": made, "sampling": sampling, "step": sampling + update, "update": update}

    return [take_step() for _ in range(steps)]


def measure(base: str, case: str, side: str, steps: int) -> Row:
    """Return the means of a side's steps after the first, and the process's peak memory."""
    torch.set_num_threads(1)
    work: dict[str, Callable[..., list[Row]]] = {
        "trl": trl_steps,
        "one": partial(our_steps, members=1),
        "four": partial(our_steps, members=4),
        "products": product_steps,
    }
    rows = work[side](base, case, steps + 1)[1:]
    means = {name: fmean(row[name] for row in rows) for name in rows[0]}
    return {**means, "peak MB": memory("VmHWM") / 1e6}


def take_turn(a: argparse.Namespace, case: str, side: str, number: int) -> Row:
    """Measure a side in a process of its own, and print its row."""
    env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = (a.base, "--steps", a.steps, "--one", case, side)
    row = {"side": side, **alone(__file__, *words, env=env)}
    show([row], head=number == 0 and side == a.sides[0])
    return row


def ratios(rows: Sequence[Row], sides: Sequence[str]) -> list[Row]:
    """Return how many times less each side of ours takes, and its share of the other's memory."""

    def mean(side: str, name: str) -> float:
        return fmean(row[name] for row in rows if row["side"] == side)

    pairs = [("trl", "one", 1), ("trl", "four", 4), ("one", "four", 4)]
    pairs += [("one", "products", 1), ("trl", "products", 1)]
    return [
        {
            "ratio": f"{times} x {over} / {under}" if times > 1 else f"{over} / {under}",
            **{
                name: times * mean(over, name) / mean(under, name)
                for name in ("sampling", "update", "step")
            },
            "memory": mean(under, "peak MB") / mean(over, "peak MB"),
        }
        for over, under, times in pairs
        if over in sides and under in sides
    ]


def main() -> None:
    options = parser(__doc__, rounds=3, steps=2)
    options.add_argument("base")
    options.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # case and side of a process
    a = options.parse_args()
    if a.one:
        with redirect_stdout(sys.stderr):  # the trainer prints a summary
            row = measure(a.base, *a.one, a.steps)
        print(json.dumps(row))
        return
    for case in a.cases:
        count, prompt, length = CASES[case]
        print(f"\n{case}: {count} prompts of {prompt} tokens, {TEXTS} texts of {length} each")
        rows = [
            take_turn(a, case, side, number)
            for number in range(a.rounds)
            for side in (a.sides if number % 2 == 0 else reversed(a.sides))
        ]
        if len(a.sides) > 1:
            print()
            show(ratios(rows, a.sides))


if __name__ == "__main__":
    main()
