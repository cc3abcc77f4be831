"""Requests and samples between our words and vLLM's."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from evals.engine.rollout import Rollout, TokenRequest
from evals.engine.rollout_engine import stop_width

_SEEDS = 2**63
"""Seeds below this fit the engine's generator."""


def sampling_arguments(
    request: TokenRequest, end_tokens: Sequence[int], *, watch_text: bool = True
) -> dict[str, Any]:
    """Return the keywords of `vllm.SamplingParams`; the seed is the request's own.

    watch_text: let vLLM end a row early at a stop text. What the completion is, `rollout_of`
    decides by our own decoding.
    """
    watched = bool(request.stop) and watch_text
    return {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed % _SEEDS,
        "logprobs": 0,
        "stop_token_ids": list(end_tokens),
        "ignore_eos": True,
        "stop": list(request.stop) if watched else None,
        "detokenize": watched,
        "skip_special_tokens": False,
    }


def rollout_of(
    request: TokenRequest,
    sampled: Any,
    end_tokens: Sequence[int],
    decode: Callable[[Sequence[int]], str],
) -> Rollout:
    """Return what a `vllm.CompletionOutput` holds, cut where the first stop text is complete."""
    ids = tuple(int(token) for token in sampled.token_ids)
    logprobs = tuple(
        float(table[token].logprob) for token, table in zip(ids, sampled.logprobs, strict=True)
    )
    ended = bool(ids) and ids[-1] in end_tokens
    cut = stopped_at(ids, request.stop, decode) if request.stop else None
    length = len(ids) if cut is None else cut
    why: Literal["stop", "length"] = "stop" if ended or cut is not None else "length"
    return Rollout(request.adapter, request.prompt_ids, ids[:length], logprobs[:length], why)


def is_cut_short(request: TokenRequest, rollout: Rollout) -> bool:
    """Whether vLLM ended a row at a stop text that is not there in our reading.

    Where a prompt ends within a character, the first text that vLLM decodes holds the prompt's.
    """
    return rollout.finish_reason == "length" and len(rollout.completion_ids) < request.max_tokens


def stopped_at(
    ids: Sequence[int], stop: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> int | None:
    """How many tokens it takes to complete one of the texts; None when none is there."""
    width = stop_width(stop)
    for length in range(1, len(ids) + 1):
        text = decode(ids[max(0, length - width) : length])
        if any(s in text for s in stop):
            return length
    return None
