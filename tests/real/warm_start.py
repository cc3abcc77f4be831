"""A LoRA on a real base model by a short supervised run on real tasks.

    python tests/real/warm_start.py BASE TASKS.jsonl OUT [--examples 160] [--seed 1]

TASKS holds rows {"snippet", "input", "output"}: a Python function f, the text between the
parentheses of a call, and what it returns. Each becomes one chat turn: either what the call
returns, or a function that returns it. The answer alone is learned. OUT is a PEFT folder of rank 8.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST_TOKENS = 320
ROWS = 8


def main() -> None:
    """Train and save; an OUT that is whole already is left alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base")
    parser.add_argument("tasks", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--examples", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if (arguments.out / "adapter_model.safetensors").is_file():
        print(f"{arguments.out} is there already")
        return
    torch.manual_seed(arguments.seed)
    tokenizer = AutoTokenizer.from_pretrained(arguments.base)
    rows = [json.loads(line) for line in arguments.tasks.read_text().splitlines()]
    examples = [e for i, row in enumerate(rows) if (e := encode(tokenizer, row, i % 2 == 0))]
    random.Random(arguments.seed).shuffle(examples)
    examples = examples[: arguments.examples]
    base = AutoModelForCausalLM.from_pretrained(arguments.base, dtype=torch.float32)
    wanted = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=8, lora_alpha=16, target_modules=wanted, task_type="CAUSAL_LM")
    model = get_peft_model(base, config)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    for start in range(0, len(examples), ROWS):
        batch = pad(examples[start : start + ROWS], tokenizer.pad_token_id)
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{start + ROWS} of {len(examples)}: loss {loss.item():.3f}", flush=True)
    model.save_pretrained(arguments.out)


def encode(tokenizer, row: dict, by_output: bool) -> tuple[list[int], int] | None:
    """Tokens of a turn and how many of them are the question; None when it is too long."""
    call = f"f({row['input']})"
    if by_output:
        asked = f"What does {call} return?\n```python\n{row['snippet']}\n```"
        answer = f"```output\n{row['output']}\n```"
    else:
        asked = f"Write a Python function f for which {call} returns {row['output']}."
        answer = f"```python\n{row['snippet']}\n```"
    turns = [{"role": "user", "content": asked}]
    before = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    question = tokenizer(before, add_special_tokens=False)["input_ids"]
    tokens = tokenizer(before + answer + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
    return (tokens, len(question)) if len(tokens) <= MOST_TOKENS else None


def pad(examples: list[tuple[list[int], int]], padding: int) -> dict[str, torch.Tensor]:
    """A batch whose loss is on the answers alone."""
    longest = max(len(tokens) for tokens, _ in examples)
    ids = torch.full((len(examples), longest), padding)
    labels = torch.full_like(ids, -100)
    for i, (tokens, asked) in enumerate(examples):
        ids[i, : len(tokens)] = torch.tensor(tokens)
        labels[i, asked : len(tokens)] = ids[i, asked : len(tokens)]
    return {
        "input_ids": ids,
        "attention_mask": (labels.ne(-100) | ids.ne(padding)),
        "labels": labels,
    }


if __name__ == "__main__":
    main()
