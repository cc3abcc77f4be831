"""What is known of each benchmark's data: its hub address and its official counts.

They are those of evalplus 0.3.1, LiveCodeBench's README, lighteval and lm-evaluation-harness;
columns, splits and revisions were compared with the hub's cards and with public code that pins
them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evals.errors import EvalsError, did_you_mean


class HubAddress(NamedTuple):
    """A data set on the Hugging Face hub. revision: a commit; None where none is known."""

    path: str
    config: str | None
    split: str
    revision: str | None


@dataclass(frozen=True)
class Official:
    """counts: rows -> what has so many. hub: None where the hub's rows lack the test inputs.

    cache: file name in evalplus' cache. releases: of the hub that a caller may choose from.
    digest: what `fingerprint` gives for the published rows, "" where that is not known.
    """

    counts: Mapping[int, str]
    hub: HubAddress | None = None
    cache: str | None = None
    releases: tuple[str, ...] = ()
    digest: str = ""


_LCB_COUNTS = {
    400: "release_v1, May 2023 to March 2024",
    511: "release_v2",
    612: "release_v3",
    713: "release_v4",
    880: "release_v5, to January 2025",
    1055: "release_v6, to April 2025",
}

OFFICIAL: Mapping[str, Official] = {
    "humaneval_plus": Official(
        {164: "HumanEval+ v0.1.10"},
        cache="HumanEvalPlus-v0.1.10.jsonl",
        digest="00bfcf06e4eed0af35e165a6c9f3e2008e517921046ba65b5d68eeb97b542bc9",
    ),
    "mbpp_plus": Official(
        {378: "MBPP+ v0.2.0", 399: "MBPP+ v0.1.0, of papers before April 2024"},
        cache="MbppPlus-v0.2.0.jsonl",
        digest="c260e838188d6a6dcbad49d8511305d6ba2f12116e79a0b0f1df29a15ae5f806",
    ),
    # The official data set is a loading script, which datasets 4 and newer refuse; this one is
    # its parquet mirror. No public source names a whole commit of it, so its main branch is read.
    "livecodebench": Official(
        _LCB_COUNTS,
        HubAddress("lighteval/code_generation_lite", "release_v5", "test", None),
        releases=tuple(name.split(",")[0] for name in _LCB_COUNTS.values()),
    ),
    "aime24": Official(
        {30: "AIME 2024"},
        HubAddress(
            "HuggingFaceH4/aime_2024", None, "train", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"
        ),
    ),
    "aime25": Official(
        {30: "AIME 2025"},
        HubAddress("math-ai/aime25", None, "test", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
    ),
    "amc23": Official(
        {40: "AMC 12 2023"},
        HubAddress("math-ai/amc23", None, "test", "80815d37005feb82cd7f8fbc6901d5d3eff43057"),
        digest="56076d9cff03e6883ff590c23681fa4c4a884b5992771008cffbd6eb4ed7239f",
    ),
    "math500": Official(
        {500: "MATH-500"},
        HubAddress(
            "HuggingFaceH4/MATH-500", None, "test", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be"
        ),
        digest="553f055c842476cc47f45cd84e518ef1b423473f455624eda37b0649be232767",
    ),
    "minerva_math": Official(
        {272: "Minerva's OCW courses"},
        HubAddress("math-ai/minervamath", None, "test", "ee46ddc498933b1977577953250ca5c66be64f96"),
        digest="b25fb30e62b0f58aeef96cb30549c8c6cb6e5ea2bf8d15a45ed78ade48ba8836",
    ),
    "gsm8k": Official(
        {1319: "GSM8K test"},
        HubAddress("openai/gsm8k", "main", "test", "740312add88f781978c0658806c59bc2815b9866"),
        digest="cf4df0e96348bd158f00d6665691cf3b2f344bfe4b4796be2231bc1e85802612",
    ),
    "olympiadbench": Official(
        {674: "OE_TO_maths_en_COMP on the hub", 675: "the file of Qwen2.5-Math and AZR"},
        HubAddress(
            "Hothan/OlympiadBench",
            "OE_TO_maths_en_COMP",
            "train",
            "91184b52131e7fc9455fef848035173aea8cc01a",
        ),
    ),
}


def official(benchmark: str) -> Official:
    """Return what is known of a benchmark. Raises EvalsError for an unknown name."""
    if benchmark not in OFFICIAL:
        hint = did_you_mean(benchmark, OFFICIAL)
        raise EvalsError(f"no data is known for benchmark {benchmark!r}; {hint}")
    return OFFICIAL[benchmark]


def remarks(benchmark: str, count: int) -> str:
    """Return what the number of rows of a benchmark means."""
    counts = official(benchmark).counts
    if count in counts:
        return f"{count} rows: {counts[count]}"
    expected = ", ".join(f"{rows} ({what})" for rows, what in counts.items())
    return f"{count} rows, which is no official number: {expected}"


def fingerprint(rows: Iterable[object]) -> str:
    """Return the SHA-256 of rows, each a line of JSON with sorted keys and no spaces."""
    digest = hashlib.sha256()
    for row in rows:
        text = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def compared(benchmark: str, count: int, found: str) -> tuple[str, ...]:
    """Return a note on whether so many rows as were published are the published ones.

    found: their fingerprint. There is no note where the published one is not known.
    """
    known = official(benchmark)
    if not known.digest or count != next(iter(known.counts)):
        return ()
    if found == known.digest:
        return ("the rows are the published ones",)
    return (f"the rows are not the published ones: sha256 {found}, expected {known.digest}",)
