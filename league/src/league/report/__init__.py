"""A league for people: one HTML page that needs nothing beside it, and a summary in text.

from league import League
from league.report import gather, page

html = page(gather(League("runs/league", read_only=True)))
"""

from league.report.gathered import Gathered, gather
from league.report.page import page
from league.report.saving import save
from league.report.sparkline import sparkline
from league.report.summary import summary

__all__ = ["Gathered", "gather", "page", "save", "sparkline", "summary"]
