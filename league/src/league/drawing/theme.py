"""Colours of the charts on a light and on a dark page, as configurations of Vega-Lite.

Charts name no colour: they say which values share a scale, and the theme gives the range.
The first two are those of teachers and students.
"""

from typing import Any


def _theme(texts: str, series: str, shares: str) -> dict[str, Any]:
    ink, muted, rule = texts.split()
    axis = {"labelColor": muted, "titleColor": muted, "gridColor": rule, "domainColor": rule}
    legend = {"labelColor": ink, "titleColor": muted, "orient": "bottom", "columns": 3}
    return {
        "background": None,
        "font": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
        "view": {"stroke": None},
        "axis": axis | {"tickColor": rule, "titleFontWeight": "normal", "labelFontSize": 11},
        "axisY": {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleY": -8},
        "legend": legend | {"labelLimit": 100, "symbolOpacity": 1, "symbolStrokeWidth": 2},
        "title": {"color": muted, "fontWeight": "normal"},
        "mark": {"color": series.split()[0]},
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": muted},
        "tick": {"color": muted},
        "range": {"category": series.split(), "diverging": shares.split()},
    }


LIGHT = _theme(
    "#1c2128 #59636e #d8dde3",
    "#b65a06 #1f6feb #1a7f5a #a8397c #7a52c7 #8a6d00 #0b7c93 #59636e",
    "#e39a54 #f6f4f0 #6fa6ee",
)
DARK = _theme(
    "#e6e9ed #a2acb7 #38414b",
    "#f0a04b #5ba3ff #4fc79a #e58cc0 #ab8ef0 #d6b84a #56c4da #a2acb7",
    "#a65f17 #2c323a #2d68b8",
)
