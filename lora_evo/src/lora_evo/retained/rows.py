"""Rows of prompts and completions: a JSON Lines file, what is held out of it, and its tokens."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.linalg.noise import stream

HELD_OUT = 0.2
"""Share of the different prompts of a file that is only measured."""
FEWEST_HELD_OUT = 8
"""From fewer rows no interval of a level can be estimated."""


@dataclass(frozen=True)
class PromptRow:
    """One prompt, and its completion if there is one."""

    line: int
    """Where it is in its file, from 1."""
    prompt: str
    completion: str | None = None


def read_rows(path: str | os.PathLike[str]) -> list[PromptRow]:
    """Read rows `{"prompt": text, "completion"?: text}`; other fields are passed over.

    Raises LoraEvoError, naming the line, for what is not such a row.
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoraEvoError(f"cannot read {file}: {error}; expected JSON Lines") from error
    rows = [_row(file, number, text) for number, text in enumerate(lines, 1) if text.strip()]
    if not rows:
        raise LoraEvoError(f'{file} holds no rows; expected lines like {{"prompt": "..."}}')
    return rows


def split_rows(rows: Sequence[PromptRow]) -> tuple[list[PromptRow], list[PromptRow]]:
    """Return rows to train on and rows that are held out: a fifth of the prompts.

    All rows of one prompt are on the same side; which prompts follows from their number alone.
    """
    bare = [row.line for row in rows if row.completion is None]
    if bare:
        raise LoraEvoError(
            f"line {bare[0]} has no completion ({len(bare)} such rows); expected "
            '{"prompt": text, "completion": text} on every line'
        )
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    order = stream(0, "held out", str(len(prompts))).permutation(len(prompts))
    kept = {prompts[place] for place in order[: round(HELD_OUT * len(prompts))]}
    held_out = [row for row in rows if row.prompt in kept]
    if len(held_out) < FEWEST_HELD_OUT:
        raise LoraEvoError(
            f"{len(held_out)} rows are held out, expected at least {FEWEST_HELD_OUT}; give more"
        )
    return [row for row in rows if row.prompt not in kept], held_out


def encode_row(
    row: PromptRow, tokenizer: Any, context: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the token ids of a prompt, with the tokenizer's special tokens, and its completion.

    Both are encoded apart, as when a model is sampled. Raises LoraEvoError for a row without tokens
    or longer than the context.
    """
    prompt = tuple(tokenizer.encode(row.prompt, add_special_tokens=True))
    text = row.completion or ""
    completion = tuple(tokenizer.encode(text, add_special_tokens=False)) if text else ()
    if not prompt or (text and not completion):
        raise LoraEvoError(f"line {row.line}: the prompt or the completion has no tokens")
    length = len(prompt) + len(completion)
    if context is not None and length > context:
        raise LoraEvoError(
            f"line {row.line} has {length} tokens, the model reads at most {context}; shorten or "
            "remove the row"
        )
    return prompt, completion


def _row(file: Path, number: int, text: str) -> PromptRow:
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise LoraEvoError(f"{file} line {number} is not JSON: {error}") from error
    prompt = raw.get("prompt") if isinstance(raw, dict) else None
    completion = raw.get("completion") if isinstance(raw, dict) else None
    if not isinstance(prompt, str) or not prompt or completion == "":
        raise LoraEvoError(f"{file} line {number}: expected an object with a prompt that is a text")
    if completion is not None and not isinstance(completion, str):
        raise LoraEvoError(f"{file} line {number}: completion is {completion!r}; expected a text")
    return PromptRow(number, prompt, completion)
