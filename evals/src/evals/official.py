"""What is known of each benchmark's data: hub address, official counts, files by their hash.

Counts and addresses are those of evalplus 0.3.1, LiveCodeBench's README, lighteval and
lm-evaluation-harness; hashes are of the files as their repositories store them (the first two: of
the same, uncompressed, as evalplus' cache has them).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evals.errors import EvalsError, did_you_mean


@dataclass(frozen=True)
class HubAddress:
    """A data set on the Hugging Face hub."""

    path: str
    config: str | None
    split: str

    def __str__(self) -> str:
        return f"{self.path} ({self.config + ', ' if self.config else ''}{self.split})"


@dataclass(frozen=True)
class Official:
    """counts: rows -> what has so many. hub: None where the hub's rows lack the test inputs.

    cache: file name in evalplus' cache. releases: of the hub that a caller may choose from.
    """

    counts: Mapping[int, str]
    hub: HubAddress | None = None
    cache: str | None = None
    releases: tuple[str, ...] = field(default=())


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

FILES: Mapping[str, str] = {
    "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f": "HumanEvalPlus v0.1.10",
    "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad": "MbppPlus v0.2.0",
    "272720b90ac375502c8ed23cd791c2a93dfb22a911641a494da74a426c09f101": "HumanEvalPlus v0.1.10",
    "daa7661c8189924068069b0872a440b491edb60f8bdf431d5957adc88d18bae5": (
        "HumanEvalPlus-OriginFmt v0.1.10, without the test inputs"
    ),
    "91486741f1627101021fbe50523df08eebb5b0bf5e804b633dcd5ca3c14dbd2f": "HumanEvalPlus-Mini",
    "298f79977b2663b8b8ab6b5fa50b17d6f23a92603d24f39e26203fe58c37eeda": "HumanEvalPlus-NoExtreme",
    "af43697e8791c4c149bdfd6b489d8b5412507551ac20e28a439f650b8225db63": "MbppPlus v0.2.0",
    "7a5aec547b134fa297ee6c45f829298aa3f58de02547b8d8a5c3d85d9cb10efc": (
        "MbppPlus-OriginFmt v0.2.0, without the test inputs"
    ),
    "72d32acaea73d5606cb97041b30d45bbda9435a675369d3e31965513ee94e564": "MbppPlus-NoExtreme",
    "af2b8bd2aa911b6333ad0df32f3ca05c7ae8ed10f1731f4372c8ae26990bf7ac": "aime24 of AZR",
    "20c1ca392758d96bd1e28af15d9f30df5660257927cacc9eac7301c29f677d1a": "aime25 of AZR",
    "43707e1ca784602d8479de24ee8ce36609dbebc46dd152b0b12a46611aa898a4": "amc23 of AZR",
    "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132": "math500 of AZR",
    "0e656b430d3a0a1dab6aa853f453ba3805e28e2cabe4fc72486a897cc09d8ba2": "minerva_math of AZR",
    "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14": "OpenAI's GSM8K test file",
    "bb8c1e38a16ea9eacb77530315a674d883f267fbff79183effc53681b4fcc416": "olympiadbench of AZR",
}


def official(benchmark: str) -> Official:
    """Return what is known of a benchmark. Raises EvalsError for an unknown name."""
    if benchmark not in OFFICIAL:
        hint = did_you_mean(benchmark, OFFICIAL)
        raise EvalsError(f"no data is known for benchmark {benchmark!r}; {hint}")
    return OFFICIAL[benchmark]


def remarks(benchmark: str, count: int, sha256: str) -> tuple[str, ...]:
    """Return what file it is, if it is a known one, and what its number of rows means."""
    counts = official(benchmark).counts
    known = [f"the file is {FILES[sha256]}"] if sha256 in FILES else []
    if count in counts:
        return (*known, f"{count} rows: {counts[count]}")
    expected = ", ".join(f"{rows} ({what})" for rows, what in counts.items())
    return (*known, f"{count} rows, which is no official number: {expected}")
