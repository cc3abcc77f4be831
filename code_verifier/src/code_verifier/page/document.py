"""The whole page."""

from collections import Counter
from dataclasses import dataclass, field
from importlib.resources import files

from code_verifier.metrics.diversity import coverage_of
from code_verifier.metrics.measurement import Metrics
from code_verifier.metrics.summary import summarise, windows
from code_verifier.page import sections
from code_verifier.page.markup import escape, plural


@dataclass(frozen=True, slots=True)
class Gathered:
    """Measured programs in the order of their file."""

    name: str
    metrics: list[Metrics] = field(default_factory=list)
    steps: list[float | None] = field(default_factory=list)
    """The step of each, or None."""
    examples: dict[str, str] = field(default_factory=dict)
    """The first program of each structure."""


def render(gathered: Gathered, unparsed: int = 0) -> str:
    """The page as one HTML text: all in it, nothing fetched, every program text escaped.

    unparsed: rows whose program could not be measured.
    """
    body = [f"<h1>{escape(gathered.name)}</h1>"]
    if not gathered.metrics:
        left_out = plural(unparsed, "row")
        body.append(f"<p>There is no program to show; {left_out} could not be measured.</p>")
        return _page(gathered.name, body)
    structures = [item.structure for item in gathered.metrics]
    found = coverage_of(structures)
    counts = sorted(Counter(structures).values(), reverse=True)
    body.append("<p>The structure of a set of Python programs, measured without running them.</p>")
    body.append(sections.tiles(gathered.metrics, found, unparsed))
    dated = [
        (item, step)
        for item, step in zip(gathered.metrics, gathered.steps, strict=True)
        if step is not None
    ]
    if len({step for _, step in dated}) > 1:
        stretches = windows([item for item, _ in dated], [step for _, step in dated])
        body.append(sections.trends(stretches))
    body.append(sections.coverage_section(found, counts))
    body.append(sections.distributions(gathered.metrics))
    body.append(sections.repeated(found, gathered.examples))
    body.append(sections.table(summarise(gathered.metrics)))
    return _page(gathered.name, body)


def _page(title: str, body: list[str]) -> str:
    style = files("code_verifier.page").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
