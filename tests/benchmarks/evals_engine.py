"""Generation with several adapters: our engine, in which they share batches, against PEFT in turns.

Both continue the same prompts greedily, to the same number of tokens or the end token, in float32
with one thread. Printed are tokens a second, their ratio, and how many completions differ (rounding
can turn an arg max).

    python tests/benchmarks/evals_engine.py [--model nano] [--adapters 4] [--tokens 64]
        [--benchmark gsm8k --data FILE --recipe azr]

Prompts are programs of nano's own benchmark, or those of a published one as a recipe asks it, which
all begin alike: that our engine reads once per adapter.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from benchmarking import parser
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from evals import Data, load_benchmark
from evals.recipes import find_recipe, render
from lora_evo import Adapter, AdapterConfig, Slot, save_adapter
from lora_evo.model import Engine, Request, open_engine, resolve

TARGETS = ("q_proj", "v_proj", "o_proj", "up_proj", "down_proj")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--model", default="nano")
    options.add_argument("--adapters", type=int, default=4)
    options.add_argument("--prompts", type=int, default=32)
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--benchmark", default="nano_code_o")
    options.add_argument("--data", type=Path)
    options.add_argument("--recipe")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(resolve(arguments.model), padding_side="left")
    questions = load_benchmark(arguments.benchmark, Data(arguments.data)).questions
    chosen = questions[:: len(questions) // arguments.prompts][: arguments.prompts]
    prompts = [asked(arguments, question.fields, tokenizer) for question in chosen]
    with tempfile.TemporaryDirectory() as folder:
        model = AutoModelForCausalLM.from_pretrained(resolve(arguments.model), dtype=torch.float32)
        folders = {
            f"a{i}": write_adapter(model, Path(folder) / f"a{i}", i)
            for i in range(arguments.adapters)
        }
        engine = open_engine(
            "hf", arguments.model, folders, device="cpu", dtype="float32", max_rows=128
        )
        contestants = {
            "ours": lambda: ours(engine, list(folders), prompts, arguments.tokens),
            "PEFT in turns": lambda: theirs(peft, tokenizer, list(folders), prompts, arguments),
        }
        peft = None
        for name, place in folders.items():
            if peft is None:
                peft = PeftModel.from_pretrained(model, str(place), adapter_name=name)
            else:
                peft.load_adapter(str(place), adapter_name=name)
        best = dict.fromkeys(contestants, 0.0)
        texts = {}
        for _ in range(arguments.rounds):
            for name, run in contestants.items():
                began = time.perf_counter()
                texts[name] = run()
                tokens = sum(map(len, texts[name]))
                best[name] = max(best[name], tokens / (time.perf_counter() - began))
    one, other = texts.values()
    differ = sum(a != b for a, b in zip(one, other, strict=True))
    for name, speed in best.items():
        print(f"{name}: {speed:,.0f} tokens/s, {speed / best['PEFT in turns']:.2f} times PEFT")
    print(f"{differ} of {len(one)} completions differ")


def asked(arguments: argparse.Namespace, fields: Mapping[str, str], tokenizer: Any) -> str:
    """The text of one prompt."""
    if arguments.recipe is None:
        return fields["prompt"]
    return render(find_recipe(arguments.recipe), arguments.benchmark, fields, tokenizer)


def write_adapter(model: torch.nn.Module, folder: Path, seed: int) -> Path:
    """Save a random adapter of rank 8 whose update is a few hundredths of the weights."""
    generator = torch.Generator().manual_seed(seed)
    config = AdapterConfig.new(r=8, lora_alpha=8, target_modules=TARGETS)
    slots = {}
    for path, module in model.named_modules():
        if path.rpartition(".")[2] in TARGETS and isinstance(module, torch.nn.Linear):
            out_features, in_features = module.weight.shape
            size = float(module.weight.float().std().detach()) * 0.05
            a = torch.randn(8, in_features, generator=generator) / 8**0.5
            b = torch.randn(out_features, 8, generator=generator) * size
            slots[path] = Slot(a, b, config.scale(path))
    save_adapter(Adapter(config, slots), folder)
    return folder


def ours(
    engine: Engine, names: list[str], prompts: list[str], tokens: int
) -> list[tuple[int, ...]]:
    """Return the tokens of every completion, adapter by adapter."""
    requests = [Request(p, name, tokens) for name in names for p in prompts]
    return [c.token_ids for c in engine.generate(requests)]


def theirs(peft, tokenizer, names, prompts, arguments) -> list[tuple[int, ...]]:
    """Do the same by `generate`, one adapter after the other."""
    found = []
    batch = tokenizer(prompts, return_tensors="pt", padding=True)
    end = tokenizer.eos_token_id
    for name in names:
        peft.set_adapter(name)
        with torch.inference_mode():
            whole = peft.generate(
                **batch,
                do_sample=False,
                max_new_tokens=arguments.tokens,
                pad_token_id=tokenizer.pad_token_id,
            )
        for row in whole[:, batch["input_ids"].shape[1] :].tolist():
            found.append(tuple(row[: row.index(end) + 1] if end in row else row))
    return found


if __name__ == "__main__":
    main()
