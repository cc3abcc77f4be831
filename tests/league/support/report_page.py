"""Reads a report page back, and checks that it is whole and fetches nothing."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree

SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
DATA = re.compile(r'<script type="application/json" id="charts">(.*?)</script>', re.DOTALL)


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def parsed(html):
    """The page as XML, which it must be but for its one script, with nothing to fetch or run.

    The script is the library that vl-convert packs, and the policy names it and the style.
    """
    (script,) = SCRIPT.findall(html)
    html = SCRIPT.sub("", html)
    root = ElementTree.fromstring(html)
    (data,) = [e for e in root.iter("script") if e.get("type") == "application/json"]
    assert len(list(root.iter("script"))) == 1
    assert "<" not in data.text
    policy = next(e.get("content") for e in root.iter("meta") if e.get("http-equiv"))
    assert policy == (
        f"default-src 'none'; style-src {digest(next(root.iter('style')).text)}; "
        f"script-src {digest(script)}; base-uri 'none'; form-action 'none'"
    )
    for element in root.iter():
        assert element.tag not in {"link", "img", "iframe", "object", "base", "form"}
        for name in element.attrib:
            assert not name.startswith("on")
            assert name not in {"href", "src", "style"}
    assert not re.search(r"https?:|url\(|@import|javascript:|\"url\"|\"href\"", html)
    places = {e.get("data-chart") for e in root.iter() if e.get("data-chart")}
    assert places == set(charts_in(html))
    return root


def charts_in(html):
    """The charts of a page by name."""
    return json.loads(DATA.findall(html)[0])["charts"]


def rows_of(chart):
    """All rows of data of a chart."""
    return [row for rows in chart["datasets"].values() for row in rows]


def beside_the_library(html):
    """The page without the library, which has the same size for every league."""
    return SCRIPT.sub("", html)
