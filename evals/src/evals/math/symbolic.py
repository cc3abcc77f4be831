"""Math-Verify on two single formulas, both through the guards before.

Its own time limits are alarms of the wall clock and are off: the process that calls this is
killed by its processor time instead.
"""

import logging
from importlib import import_module
from importlib.util import find_spec

from evals.errors import EvalsError

INSTALL = "pip install 'populab-evals[benchmarks]'"


def require() -> None:
    """Raise EvalsError where Math-Verify is not installed."""
    if find_spec("math_verify") is None:
        raise EvalsError(f"math grading needs math-verify, which is not installed; type {INSTALL}")


def warm() -> None:
    """Import Math-Verify and let its parser build its tables."""
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)
    same(r"\int_0^1 x^2 dx", r"\frac{1}{3}")


def same(gold: str, answer: str) -> bool:
    """Whether Math-Verify takes `answer` for `gold`. Both are LaTeX without a box."""
    library = import_module("math_verify")
    config = [library.LatexExtractionConfig(boxed_match_priority=0)]
    first, second = (
        library.parse(f"$\\boxed{{{text}}}$", config, parsing_timeout=None, raise_on_error=False)
        for text in (gold, answer)
    )
    return bool(library.verify(first, second, strict=True, float_rounding=9, timeout_seconds=None))
