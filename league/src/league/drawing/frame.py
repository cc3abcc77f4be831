"""The frame of a page: one file that works offline, and that no text in it can break.

Every text is escaped by jinja after `visible`; the charts are data in a script element that cannot
be closed from inside; the policy admits this style and this script alone, and no connection.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import altair as alt
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from league.drawing.theme import DARK, LIGHT
from league.drawing.words import visible

if find_spec("vl_convert") is None:  # imported where it is needed: 8 MB that most pages do without
    raise ModuleNotFoundError("No module named 'vl_convert'", name="vl_convert")

Charts = Mapping[str, alt.TopLevelMixin]
"""Charts by name; a template places one with `data-chart`, and a file is called so."""


def written(template: str, charts: Charts, *, package: str = "league", **values: object) -> str:
    """Return the page of a template with these charts and values.

    Templates lie in `templates` of the package; frame and parts are this one's, whose style and
    script the package may extend by a `more.css` and a `more.js`.
    """
    style = _packaged("league", "style.css") + _packaged(package, "more.css")
    script = _library(package)
    page = environment(package).get_template(template)
    return page.render(
        values,
        charts={name: specification(chart) for name, chart in charts.items()},
        themes={"light": LIGHT, "dark": DARK},
        style=Markup(style),
        script=script,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'",
    )


@cache
def environment(package: str) -> Environment:
    """Return what renders the templates of a package: it escapes every text, after `visible`."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(n, "templates") for n in (package, "league")]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return a chart as plain data for the page: in the page's theme, and as wide as its place
    unless the chart has an autosize of its own."""
    found = {
        k: v for k, v in chart.to_dict(validate=False).items() if k not in ("$schema", "config")
    }
    if isinstance(found.get("width"), int | float) and "autosize" not in found:
        found |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    cleaned: dict[str, Any] = _cleaned(found)
    return cleaned


def save_charts(charts: Charts, folder: Path) -> None:
    """Write every chart into a folder, as SVG and as PNG of twice the resolution."""
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    theme = LIGHT | {"background": "white"}
    for name, chart in charts.items():
        drawn = _cleaned(chart.to_dict())
        svg = vl_convert.vegalite_to_svg(drawn, config=theme)
        png = vl_convert.vegalite_to_png(drawn, config=theme, scale=2)
        for ending, content in (("svg", svg.encode()), ("png", png)):
            partial = folder / f".{name}.{ending}"
            partial.write_bytes(content)
            partial.replace(folder / f"{name}.{ending}")


def _shown(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    return visible(value) if isinstance(value, str) else value


@cache
def _library(package: str) -> Markup:
    """Vega-Lite and all it needs, ending with the script that draws the charts.

    Kept in the user's cache folder, since it takes two seconds and 100 MB to make; in ASCII, which
    Python holds in a byte a character.
    """
    script = _packaged("league", "draw.js") + _packaged(package, "more.js")
    name = hashlib.sha256(f"{version('vl-convert-python')}\n{script}".encode()).hexdigest()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    kept = Path(home) / "populab" / "pages" / f"{name}.js"
    with suppress(OSError, UnicodeError):
        return Markup(kept.read_text(encoding="ascii"))
    import vl_convert

    bundle = str(vl_convert.javascript_bundle(script))
    made = Markup(re.sub("[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], bundle))
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(made, encoding="ascii")
        partial.replace(kept)
    return made


def _packaged(package: str, name: str) -> str:
    file = files(package) / "templates" / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
