"""One HTML page that shows a set of measured programs; no script, no file beside it."""

from code_verifier.page.document import render
from code_verifier.page.gathered import Gathered
from code_verifier.page.saving import save

__all__ = ["Gathered", "render", "save"]
