"""The table of an experiment as text, Markdown and JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lora_evo.recovery.plan import CONTINUED, RESET
from lora_evo.recovery.summary import MOST_CENSORED, MOST_STEPS, Gain, Row, Summary
from lora_evo.text_table import text_table as aligned

FEWEST = 3
"""Trials below which an interval over trials would say nothing and is not shown."""
HEADER = (
    "treatment", "parents", "trials", "change", "at step 0", "median", "95 % of median", "90 %",
    "never", "vs continued", "vs reset", "met",
)  # fmt: skip


def to_dict(summary: Summary) -> dict[str, Any]:
    """Everything in the summary, JSON-ready."""
    data = asdict(summary)
    data["has_power"] = summary.has_power
    for row, values in zip(summary.rows, data["rows"], strict=True):
        values["passed"] = row.passed
    return data


def to_json(summary: Summary) -> str:
    """Everything in the summary as JSON text."""
    return json.dumps(to_dict(summary), indent=1, sort_keys=True, allow_nan=False) + "\n"


def text_table(summary: Summary) -> str:
    """Aligned columns, and what they hang on below."""
    table = aligned(header(summary), (cells(row, summary) for row in summary.rows))
    return "\n".join((table, "", *notes(summary)))


def markdown(summary: Summary) -> str:
    """A Markdown table, and what it hangs on below."""
    rows = [header(summary), ("---",) * len(HEADER), *(cells(r, summary) for r in summary.rows)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join((*lines, "", *(f"* {note}" for note in notes(summary)), ""))


def header(summary: Summary) -> tuple[str, ...]:
    """The titles of the columns."""
    confidence = f"{100 * summary.protocol.confidence:g} %"
    return tuple(title.replace("95 %", confidence) for title in HEADER)


def cells(row: Row, summary: Summary) -> tuple[str, ...]:
    """One line of the table."""
    control = row.name in (CONTINUED, RESET)
    low, high = row.median_interval
    last = summary.protocol.steps
    return (
        f"({row.name})" if control else row.name,
        row.relation or "one",
        f"{row.trials}",
        "from zero" if row.relative_change is None else f"{row.relative_change:.2f}",
        f"{row.start:+.3f}",
        step_text(row.median, last),
        f"{step_text(low, last)} to {step_text(high, last)}" if row.trials >= FEWEST else "",
        step_text(row.p90, last),
        f"{100 * row.censored:.0f} %",
        "" if row.name == CONTINUED else gain_text(row.over_continued, row.trials),
        "" if row.name == RESET else gain_text(row.over_reset, row.trials),
        "" if control else "yes" if row.passed else "no",
    )


def notes(summary: Summary) -> Sequence[str]:
    """Sentences without which the numbers mislead."""
    protocol = summary.protocol
    levels = ", ".join(
        f"{name} {level.mean:.3f} ± {level.half_width:.3f}"
        for name, level in sorted(summary.levels.items())
    )
    found = [
        f"parents' fitness on {summary.items} held-out items: {levels or 'not measured yet'}",
        f"checks after {', '.join(map(str, protocol.checks))} steps; recovered: a moving average "
        f"of {protocol.window} checks holds the best parent's level, less the larger of ± and "
        f"{100 * protocol.delta:g} %, for {protocol.holds} checks",
        f"met: median of at most {MOST_STEPS} steps and less than {100 * MOST_CENSORED:g} % never "
        f"recovered (by step {protocol.steps})",
    ]
    power = {
        True: "a reset does not recover, so the test can tell retention from its absence",
        False: "a reset meets the criterion too: THE TEST HAS NO POWER, nothing here is proved",
        None: "there are no resets yet: the power of the test is not known",
    }
    found.append(power[summary.has_power])
    for c in summary.correlations:
        rho = "undefined" if c.rho is None else f"{c.rho:.2f}"
        found.append(f"rank correlation of {c.proxy} with recovery: {rho} ({c.trials} children)")
    return found


def step_text(step: float | None, last: int) -> str:
    """A recovery step; None: after the last check."""
    return f"> {last}" if step is None else f"{step:g}"


def gain_text(gain: Gain, trials: int, digits: int = 3) -> str:
    """A mean difference, with its interval where there are trials enough."""
    around = f" ({gain.low:+.{digits}f} to {gain.high:+.{digits}f})" if trials >= FEWEST else ""
    return f"{gain.mean:+.{digits}f}{around}"
