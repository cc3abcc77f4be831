"""Probe prompts: a JSON Lines file read row by row, and its rows as tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.files.directory import PathLike


@dataclass(frozen=True)
class ProbeRow:
    """One prompt, and its completion if there is one."""

    line: int
    """Where it stands in its file, from 1."""
    prompt: str
    completion: str | None = None


@dataclass(frozen=True)
class TokenRow:
    """A row as token ids."""

    line: int
    ids: tuple[int, ...]
    first: int
    """The first position after which distributions are compared."""
    last: int
    """The last such position."""
    targets: tuple[int, ...] | None
    """The tokens that came there, in a row with a completion."""


def read_probes(path: PathLike) -> list[ProbeRow]:
    """Rows `{"prompt": text, "completion"?: text}`; other fields and empty lines are passed over.

    Raises `LoraEvoError`, naming the line, for what is not such a row.
    """
    file = Path(path)
    if not file.is_file():
        raise LoraEvoError(f"{file} is not a file; expected JSON Lines with a prompt in each row")
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise FileDamage(f"{file} is not UTF-8 text: {error}") from error
    rows = [_row(file, number, text) for number, text in enumerate(lines, 1) if text.strip()]
    if not rows:
        raise LoraEvoError(f'{file} holds no rows; expected lines like {{"prompt": "..."}}')
    return rows


def tokenised(
    rows: Sequence[ProbeRow], tokenizer: Any, *, skip: int, longest: int | None, vocabulary: int
) -> list[TokenRow]:
    """Rows as tokens: the prompt with the tokenizer's own special tokens, then the completion.

    Both are tokenised apart, as when a model is sampled. With a completion the distributions that
    predict its tokens are compared; without one, those after at least `skip` tokens of the prompt
    (always the one after the whole prompt). `longest`: the model's context.
    """
    found = []
    for row in rows:
        prompt = tuple(int(token) for token in tokenizer(row.prompt)["input_ids"])
        if not prompt:
            raise LoraEvoError(f"line {row.line}: the prompt has no tokens; expected at least one")
        if row.completion is None:
            ids, first, targets = prompt, min(skip, len(prompt)) - 1, None
            last = len(ids) - 1
        else:
            answer = tokenizer(row.completion, add_special_tokens=False)["input_ids"]
            targets = tuple(int(token) for token in answer)
            if not targets:
                raise LoraEvoError(f"line {row.line}: the completion has no tokens; leave it out")
            ids, first = prompt + targets, len(prompt) - 1
            last = len(ids) - 2
        if longest is not None and len(ids) > longest:
            raise LoraEvoError(
                f"line {row.line} has {len(ids)} tokens, the model reads at most {longest}; "
                "shorten or remove the row"
            )
        if max(ids) >= vocabulary:
            raise LoraEvoError(
                f"line {row.line} gives token {max(ids)}, the model knows {vocabulary}; "
                "the tokenizer beside the model is not its own"
            )
        found.append(TokenRow(row.line, ids, first, last, targets))
    return found


def padded(rows: Sequence[TokenRow], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask [rows, longest]; rows are padded behind, where no token looks."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row.ids)] = torch.tensor(row.ids)
        mask[place, : len(row.ids)] = 1
    return ids.to(device), mask.to(device)


def _row(file: Path, number: int, text: str) -> ProbeRow:
    where = f"{file} line {number}"
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise LoraEvoError(f"{where} is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise LoraEvoError(f"{where} is a {type(raw).__name__}; expected an object with a prompt")
    prompt, completion = raw.get("prompt"), raw.get("completion")
    if not isinstance(prompt, str) or not prompt:
        raise LoraEvoError(f"{where}: prompt is {prompt!r}; expected a text that is not empty")
    if completion is not None and (not isinstance(completion, str) or not completion):
        raise LoraEvoError(
            f"{where}: completion is {completion!r}; expected a text that is not empty, or no "
            "such field"
        )
    return ProbeRow(number, prompt, completion)
