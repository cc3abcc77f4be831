"""HTML pages that work offline, and the format of numbers.

Programs and answers come from models, so every text of a page is escaped, and invisible characters
are spelt out. Charts are data in an element that no text can close. The content security policy
allows only the page's own style and script.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lora_evo.files import write_text

if TYPE_CHECKING:
    from jinja2 import Environment

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Head and rows."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
PALETTE = (
    *("#3b82d6", "#d1682a", "#259a72", "#a05fc4", "#b38600"),
    *("#c0473a", "#2a9fb5", "#d0669c", "#7a8b2f", "#8a94a0"),
)
"""Colours of members and bars; each is visible on light and dark pages."""


def write_page(path: Path, template: str, charts: Mapping[str, Any], **values: object) -> None:
    """Write the page of a template with these values; `data-chart` places a chart by its name.

    Equal values give equal bytes.
    """
    style, script = _source("page.css"), _library() + _source("gallery.js")
    data = json.dumps({name: _specification(chart) for name, chart in charts.items()})
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
    source = _environment().get_template(template)
    text = source.render(
        values,
        charts=Markup(data.replace("<", "\\u003c")),
        style=Markup(style),
        script=Markup(script),
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
    )
    write_text(path, text)


def visible(text: str) -> str:
    """Return the text with invisible and text-reversing characters spelt out."""
    return _INVISIBLE.sub(lambda character: f"<U+{ord(character[0]):04X}>", text)


def clip(text: str, limit: int) -> str:
    """Return the text cut to `limit` characters, with a note of how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit:,} more characters"


def figure(value: float | None, *, share: bool = False, signed: bool = False) -> str:
    """Return a number with three significant digits, or a percentage for a share."""
    if value is None:
        return "–"
    plus = "+" if signed and value > 0 else ""
    if share:
        return f"{plus}{100 * value:.1f} %".replace("-", "−")
    if abs(value) < 5e-5:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{plus}{value:.{min(max(digits, 0), 4)}f}".replace("-", "−")


def counted(number: object, noun: str) -> str:
    """Return `1 teacher`, or `2 teachers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Return seconds as `4.8 s`, `4 min 10 s` or `2 h 5 min`."""
    whole = round(seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _specification(chart: Any) -> Any:
    """Return a chart as plain data, as wide as its element on the page."""
    fit = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    plain = chart.to_dict(validate=False) | fit
    return _shorten({key: plain[key] for key in plain if key not in ("$schema", "config")})


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shorten(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shorten(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return visible(value) if isinstance(value, str) else value


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def shown(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Markup):
            return visible(value)
        return "" if value is None else value

    environment = Environment(
        loader=PackageLoader("selfplay", "reports/templates"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"clip": clip, "figure": figure, "duration": duration}
    return environment


def _source(name: str) -> str:
    return (files("selfplay") / "reports" / "templates" / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Return Vega-Lite with its dependencies, and the script that draws the charts."""
    import vl_convert

    draw = _source("draw.js").replace("PALETTE", json.dumps(PALETTE))
    return str(vl_convert.javascript_bundle(draw))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
