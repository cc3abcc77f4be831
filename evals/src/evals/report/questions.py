"""The samples of a page: each question with what all adapters answered, as far as there is room."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.report.scored_run import ScoredRun

MOST_TEXT = 4_000
"""Characters shown of a prompt or a response."""


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


def questions(runs: Sequence[ScoredRun], budget: int) -> tuple[list[Asked], int]:
    """Questions of one benchmark that fit into so many bytes, and how many were left out.

    Those on which adapters differ come in first; all stand in the order of the benchmark.
    """
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
            words = {True: "right", False: "wrong", None: "not-judged"}
            verdict = words[v.correct] if v.well_formed or v.correct else "ill-formed"
            response, extracted = run.samples[v.id, v.sample].response, v.extracted or ""
            shown = "" if extracted == response else _cut(extracted)
            answers.setdefault(v.id, []).append(
                Answer(run.result.adapter, verdict, _cut(v.reason), shown, _cut(response))
            )
    prompts = {question: text for run in runs for question, text in run.prompts.items()}
    return [Asked(q, levels[q], _cut(prompts.get(q, "")), tuple(answers[q])) for q in answers]


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} more characters"
