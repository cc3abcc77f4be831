"""A league for people: one HTML page that needs nothing beside it, and a summary in text.

from league import League
from league.report import gather, page

html = page(gather(League("runs/league", read_only=True)))
"""

from league.drawing.sparkline import sparkline
from league.pages.gathered import Gathered, gather
from league.pages.page import page, save
from league.pages.summary import summary

__all__ = ["Gathered", "gather", "page", "save", "sparkline", "summary"]
