"""Charts of measured programs, as Altair charts that show themselves in a notebook.

from code_verifier import measure
from code_verifier.report import histogram

depths = sorted(float(measure(program).ast_depth) for program in programs)
histogram(depths, True, [], "depth of the syntax tree")

They need the extra `report`.
"""

from code_verifier.page.document import Gathered, charts_of, render
from code_verifier.page.extra import extra_report

with extra_report():
    from code_verifier.page.charts import curves, evenness, growth, histogram, trend, variety
    from code_verifier.page.frame import save_charts

__all__ = [
    "Gathered",
    "charts_of",
    "curves",
    "evenness",
    "growth",
    "histogram",
    "render",
    "save_charts",
    "trend",
    "variety",
]
