"""Rows of prompts and completions: a JSON Lines file, what is held out of it, and its tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.files.directory import PathLike
from lora_evo.model.engine import derive_seed, stream
from lora_evo.model.supervised import TokenPair, token_pair

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


def read_rows(path: PathLike) -> list[PromptRow]:
    """Read rows `{"prompt": text, "completion"?: text}`; other fields are passed over.

    Raises LoraEvoError, naming the line, for what is not such a row.
    """
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
        texts = fields.get("prompt"), fields.get("completion", "none")
        if not all(isinstance(text, str) and text for text in texts):
            raise LoraEvoError(
                f'{path} line {number}: expected {{"prompt": text, "completion": text}}, of which '
                "the completion may be left out"
            )
        rows.append(PromptRow(number, fields["prompt"], fields.get("completion")))
    if not rows:
        raise LoraEvoError(f'{path} holds no rows; expected lines like {{"prompt": "..."}}')
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
    order = stream(derive_seed(0, "held out", len(prompts))).permutation(len(prompts))
    kept = {prompts[place] for place in order[: round(HELD_OUT * len(prompts))]}
    held_out = [row for row in rows if row.prompt in kept]
    if len(held_out) < FEWEST_HELD_OUT:
        raise LoraEvoError(
            f"{len(held_out)} rows are held out, expected at least {FEWEST_HELD_OUT}; give more"
        )
    return [row for row in rows if row.prompt not in kept], held_out


def encode_row(row: PromptRow, tokenizer: Any, context: int | None) -> TokenPair:
    """Return the tokens of a prompt, with the tokenizer's special ones, and of its completion.

    Raises LoraEvoError for a row without tokens or longer than the context.
    """
    pair = token_pair(tokenizer, row.prompt, row.completion or "", special=True)
    if not pair.prompt_ids or (row.completion and not pair.completion_ids):
        raise LoraEvoError(f"line {row.line}: the prompt or the completion has no tokens")
    if context is not None and pair.length > context:
        raise LoraEvoError(
            f"line {row.line} has {pair.length} tokens, the model reads at most {context}; shorten "
            "or remove the row"
        )
    return pair
