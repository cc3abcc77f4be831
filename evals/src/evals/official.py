"""What is known of each benchmark's data: its hub address and its official counts.

They are those of evalplus 0.3.1, LiveCodeBench's README, lighteval and lm-evaluation-harness.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evals.errors import EvalsError, did_you_mean


class HubAddress(NamedTuple):
    """A data set on the Hugging Face hub."""

    path: str
    config: str | None
    split: str


@dataclass(frozen=True)
class Official:
    """counts: rows -> what has so many. hub: None where the hub's rows lack the test inputs.

    cache: file name in evalplus' cache. releases: of the hub that a caller may choose from.
    """

    counts: Mapping[int, str]
    hub: HubAddress | None = None
    cache: str | None = None
    releases: tuple[str, ...] = ()


_LCB_COUNTS = {
    400: "release_v1, May 2023 to March 2024",
    511: "release_v2",
    612: "release_v3",
    713: "release_v4",
    880: "release_v5, to January 2025",
    1055: "release_v6, to April 2025",
}

OFFICIAL: Mapping[str, Official] = {
    "humaneval_plus": Official({164: "HumanEval+ v0.1.10"}, cache="HumanEvalPlus-v0.1.10.jsonl"),
    "mbpp_plus": Official(
        {378: "MBPP+ v0.2.0", 399: "MBPP+ v0.1.0, of papers before April 2024"},
        cache="MbppPlus-v0.2.0.jsonl",
    ),
    # The official data set is a loading script, which datasets 4 and newer refuse; this one is
    # its parquet mirror.
    "livecodebench": Official(
        _LCB_COUNTS,
        HubAddress("lighteval/code_generation_lite", "release_v5", "test"),
        releases=tuple(name.split(",")[0] for name in _LCB_COUNTS.values()),
    ),
    "aime24": Official({30: "AIME 2024"}, HubAddress("HuggingFaceH4/aime_2024", None, "train")),
    "aime25": Official({30: "AIME 2025"}, HubAddress("math-ai/aime25", None, "test")),
    "amc23": Official({40: "AMC 12 2023"}, HubAddress("math-ai/amc23", None, "test")),
    "math500": Official({500: "MATH-500"}, HubAddress("HuggingFaceH4/MATH-500", None, "test")),
    "minerva_math": Official(
        {272: "Minerva's OCW courses"}, HubAddress("math-ai/minervamath", None, "test")
    ),
    "gsm8k": Official({1319: "GSM8K test"}, HubAddress("openai/gsm8k", "main", "test")),
    "olympiadbench": Official(
        {674: "OE_TO_maths_en_COMP on the hub", 675: "the file of Qwen2.5-Math and AZR"},
        HubAddress("Hothan/OlympiadBench", "OE_TO_maths_en_COMP", "train"),
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
