"""Generation with several adapters: our engine, in which they share batches, against PEFT in turns.

    python benchmarks/evals_engine.py [--model nano] [--adapters 4] [--tokens 64] [--rows 16]
        [--benchmark gsm8k --data FILE --recipe azr]

Both continue the same prompts greedily, to the same number of tokens or the end token, in float32
with one thread. Printed are tokens a second, their ratio, and how many completions differ (rounding
can turn an arg max). Decode steps are those of samples whose lengths are mixed (few are long, up to
8 times --tokens) in --rows rows, and their ratio to a row taking the next sample in the very step
in which its own ends. Prompts are programs of nano's own benchmark, or those of a published one as
a recipe asks it, which all begin alike: that our engine reads once per adapter.
"""

import heapq
import tempfile
from pathlib import Path

import torch
from benchmarking import best_of, parser
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from evals import RECIPES, Data, load_benchmark
from evals.recipes import render
from lora_evo.model import Engine, Request, open_engine, resolve, stream

TARGETS = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]


def with_adapters(model: torch.nn.Module, names: list[str]) -> PeftModel:
    """Put on PEFT adapters of rank 8 whose updates are a few hundredths of the weights."""
    config = LoraConfig(r=8, lora_alpha=8, target_modules=TARGETS)
    peft = get_peft_model(model, config, adapter_name=names[0])
    for name in names[1:]:
        peft.add_adapter(name, config)
    drawn = torch.Generator().manual_seed(0)
    for path, parameter in peft.named_parameters():
        if ".lora_" in path:
            base = peft.get_submodule(path.partition(".lora_")[0]).base_layer.weight
            size = 8**-0.5 if ".lora_A." in path else 0.05 * float(base.detach().std())
            parameter.data = size * torch.randn(parameter.shape, generator=drawn)
    return peft


def decode_steps(engine: Engine, prompts: list[str], tokens: int, rows: int) -> tuple[int, int]:
    """Return the decode steps of samples of mixed length, and those of ideal refilling."""
    drawn = stream(1).exponential(tokens, 8 * len(prompts)).astype(int)
    limits = [int(n) for n in drawn.clip(1, 8 * tokens)]
    batch = [Request(prompts[i % len(prompts)], "a0", n, 1.0, seed=i) for i, n in enumerate(limits)]
    step, taken = engine._decoder.step, []
    engine._decoder.step = lambda *a: taken.append(1) or step(*a)
    most, engine.max_rows = engine.max_rows, rows
    rollouts = engine.generate(batch)
    engine._decoder.step, engine.max_rows = step, most
    order = sorted(rollouts, key=lambda r: (len(r.prompt_ids), r.prompt_ids))
    ends = [0] * rows
    for rollout in order:
        heapq.heapreplace(ends, ends[0] + len(rollout.completion_ids) - 1)
    return len(taken), max(ends)


def main() -> None:
    options = parser(
        __doc__,
        model="nano",
        adapters=4,
        prompts=32,
        tokens=64,
        rows=16,
        rounds=3,
        benchmark="nano_code_o",
    )
    options.add_argument("--data", type=Path)
    options.add_argument("--recipe", choices=RECIPES)
    args = options.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(resolve(args.model), padding_side="left")
    questions = load_benchmark(args.benchmark, Data(args.data)).questions
    chosen = [q.fields for q in questions[:: len(questions) // args.prompts][: args.prompts]]
    recipe = RECIPES.get(args.recipe)
    prompts = [
        render(recipe, args.benchmark, fields, tokenizer) if recipe else fields["prompt"]
        for fields in chosen
    ]
    batch, end = tokenizer(prompts, return_tensors="pt", padding=True), tokenizer.eos_token_id
    names = [f"a{i}" for i in range(args.adapters)]
    model = AutoModelForCausalLM.from_pretrained(resolve(args.model), dtype=torch.float32)
    peft = with_adapters(model, names)
    completions: dict[str, list[tuple[int, ...]]] = {}
    with tempfile.TemporaryDirectory() as home:
        peft.save_pretrained(home)
        folders = {name: Path(home) / name for name in names}
        engine = open_engine(
            "hf", args.model, folders, device="cpu", dtype="float32", max_rows=128, any_base=True
        )

    def ours() -> None:
        batch = [Request(prompt, name, args.tokens) for name in names for prompt in prompts]
        completions["ours"] = [rollout.completion_ids for rollout in engine.generate(batch)]

    def theirs() -> None:
        completions["PEFT"] = []
        limits = {"max_new_tokens": args.tokens, "pad_token_id": tokenizer.pad_token_id}
        for name in names:
            peft.set_adapter(name)
            with torch.inference_mode():
                whole = peft.generate(**batch, do_sample=False, **limits)
            for row in whole[:, batch["input_ids"].shape[1] :].tolist():
                completions["PEFT"].append(tuple(row[: row.index(end) + 1] if end in row else row))

    seconds = best_of(args.rounds, {"ours": ours, "PEFT": theirs})
    speeds = {name: sum(map(len, completions[name])) / seconds[name] for name in completions}
    for name, speed in speeds.items():
        print(f"{name}: {speed:,.0f} tokens/s, {speed / speeds['PEFT']:.2f} times PEFT in turns")
    differ = sum(a != b for a, b in zip(*completions.values(), strict=True))
    print(f"{differ} of {len(completions['ours'])} completions differ")
    taken, ideal = decode_steps(engine, prompts, args.tokens, args.rows)
    print(f"mixed lengths: {taken} decode steps, {taken / ideal:.2f} times ideal refilling's")


if __name__ == "__main__":
    main()
