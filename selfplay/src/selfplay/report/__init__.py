"""The report of a run: one self-contained page with pictures, and a short text for a terminal."""

from selfplay.report.page import ReportError, write_report
from selfplay.report.summary import summary_text

__all__ = ["ReportError", "summary_text", "write_report"]
