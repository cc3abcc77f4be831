"""Rows on which a child and its controls are trained: prompts and completions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.model.scoring import TokenPair
from lora_evo.model.supervised import token_pair
from lora_evo.peft.directory import PathLike
from lora_evo.random_streams import derive_seed, stream

HELD_OUT = 0.2
"""Share of a file's different prompts that is held out."""
FEWEST_HELD_OUT = 8
"""Fewest held-out rows, for an interval of the level."""


@dataclass(frozen=True)
class PromptRow:
    """A prompt and its completion."""

    line: int
    """Line in its file, from 1."""
    prompt: str
    completion: str


def read_rows(path: PathLike) -> list[PromptRow]:
    """Read rows `{"prompt": text, "completion": text}` of JSON Lines. Raises LoraEvoError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoraEvoError(f"cannot read {path}: {error}; expected JSON Lines") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except ValueError as error:
            raise LoraEvoError(f"{path} line {number} is not JSON: {error}") from error
        fields = raw if isinstance(raw, dict) else {}
        texts = fields.get("prompt"), fields.get("completion")
        if not all(isinstance(text, str) and text for text in texts):
            raise LoraEvoError(
                f'{path} line {number}: expected {{"prompt": text, "completion": text}}'
            )
        rows.append(PromptRow(number, fields["prompt"], fields["completion"]))
    if not rows:
        raise LoraEvoError(f"{path} holds no rows")
    return rows


def split_rows(rows: Sequence[PromptRow]) -> tuple[list[PromptRow], list[PromptRow]]:
    """Return training rows, and rows of a held-out fifth of the prompts, drawn by their number."""
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    order = stream(derive_seed(0, "held out", len(prompts))).permutation(len(prompts))
    excluded = {prompts[number] for number in order[: round(HELD_OUT * len(prompts))]}
    held_out = [row for row in rows if row.prompt in excluded]
    if len(held_out) < FEWEST_HELD_OUT:
        raise LoraEvoError(
            f"{len(held_out)} rows are held out, expected at least {FEWEST_HELD_OUT}; give more"
        )
    return [row for row in rows if row.prompt not in excluded], held_out


def encode_row(row: PromptRow, tokenizer: Any, context: int | None) -> TokenPair:
    """Return the tokens of a row's prompt and completion. Raises LoraEvoError."""
    pair = token_pair(tokenizer, row.prompt, row.completion, special=True)
    if not (pair.prompt_ids and pair.completion_ids):
        raise LoraEvoError(f"line {row.line}: the prompt or the completion has no tokens")
    if context is not None and pair.length > context:
        raise LoraEvoError(
            f"line {row.line} has {pair.length} tokens, the model reads at most {context}"
        )
    return pair
