"""One self-contained page of results: rates with intervals, distributions, and samples to browse.

The page needs no connection and a content policy forbids it any. Prompts and responses are
untrusted: jinja2 escapes them, and what could hide text from a reader is spelt out.
"""

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from evals.atomic import write_text
from evals.errors import EvalsError
from evals.report.scored_run import ScoredRun, by_benchmark

MOST_BYTES = 4_000_000
"""Bytes of all questions with their samples on a page, at most."""
MOST_TEXT = 4_000
"""Characters shown of a prompt or a response."""
BINS = 12
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufffe\uffff]"
)


@dataclass(frozen=True)
class Answer:
    """One sample as it is shown."""

    adapter: str
    verdict: str
    reason: str
    extracted: str
    response: str


@dataclass(frozen=True)
class Asked:
    """A question with the samples of all adapters."""

    id: str
    level: int
    prompt: str
    answers: tuple[Answer, ...]

    @property
    def verdicts(self) -> str:
        """The different verdicts, for the filter."""
        found = {answer.verdict for answer in self.answers}
        return " ".join(sorted(found | ({"differ"} if len(found) > 1 else set())))

    @property
    def bytes(self) -> int:
        """About how much room it takes."""
        return 400 + len(self.prompt) + sum(400 + len(a.response) for a in self.answers)


def write_page(runs: Sequence[ScoredRun], page: Path) -> None:
    """Write the page. Raises EvalsError where that is not possible; an old page then stays."""
    if page.is_dir():
        raise EvalsError(f"{page} is a folder; give the name of a file, such as {page}/evals.html")
    try:
        write_text(page, page_text(runs))
    except OSError as error:
        raise EvalsError(f"cannot write {page}: {error.strerror or error}") from error


def page_text(runs: Sequence[ScoredRun]) -> str:
    """The page of these runs; equal runs give equal bytes."""
    environment = Environment(
        loader=PackageLoader("evals", "report/templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["seen"] = visible
    style, script = (
        (files("evals.report") / name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    groups = by_benchmark(runs)
    budget = MOST_BYTES // max(1, len(groups))
    return environment.get_template("page.html").render(
        runs=[run for found in groups.values() for run in found],
        groups={name: _shown(found, budget) for name, found in groups.items()},
        lengths={name: histogram(found) for name, found in groups.items()},
        solved={n: [(run, _solved(run, found)) for run in found] for n, found in groups.items()},
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}",
    )


def visible(text: str) -> str:
    """The text, cut, with controls, direction marks and lone surrogates spelt out as <U+....>."""
    if len(text) > MOST_TEXT:
        text = f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} more characters"
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text.replace("\r\n", "\n"))


def histogram(runs: Sequence[ScoredRun]) -> dict[str, list[tuple[int, int, int]]]:
    """Samples by length in tokens, for each adapter: (first, last, count) of equal bins."""
    tokens = {
        run.result.adapter: [s.tokens for s in run.samples.values() if s.tokens is not None]
        for run in runs
    }
    longest = max((max(found, default=0) for found in tokens.values()), default=0)
    width = max(1, math.ceil((longest + 1) / BINS))
    return {
        adapter: [
            (at, at + width - 1, sum(at <= n < at + width for n in found))
            for at in range(0, longest + 1, width)
        ]
        for adapter, found in tokens.items()
    }


def _solved(run: ScoredRun, together: Sequence[ScoredRun]) -> list[tuple[str, float | None]]:
    """Every question of a benchmark with the share of right samples of one adapter."""
    ids = dict.fromkeys(verdict.id for one in together for verdict in one.verdicts)
    return [(question, run.rate(question)) for question in ids]


def _shown(runs: Sequence[ScoredRun], budget: int) -> tuple[list[Asked], int]:
    """Questions that fit, those on which adapters differ first, and how many were left out."""
    asked = _asked(runs)
    ranked = sorted(range(len(asked)), key=lambda i: ("differ" not in asked[i].verdicts, i))
    kept = []
    for i in ranked:
        if asked[i].bytes <= budget:
            budget -= asked[i].bytes
            kept.append(i)
    return [asked[i] for i in sorted(kept)], len(asked) - len(kept)


def _asked(runs: Sequence[ScoredRun]) -> list[Asked]:
    levels: dict[str, int] = {}
    answers: dict[str, list[Answer]] = {}
    for run in runs:
        for v in run.verdicts:
            levels[v.id] = v.level
            words = {True: "right", False: "wrong", None: "not judged"}
            verdict = words[v.correct] if v.well_formed or v.correct else "ill-formed"
            response = run.samples[v.id, v.sample].response[: MOST_TEXT + 1]
            answers.setdefault(v.id, []).append(
                Answer(run.result.adapter, verdict, v.reason, v.extracted or "", response)
            )
    prompts = {question: text for run in runs for question, text in run.prompts.items()}
    return [Asked(q, levels[q], prompts.get(q, ""), tuple(answers[q])) for q in answers]


def _digest(text: str) -> str:
    """The policy's name for this very text: nothing else may style or run on the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
