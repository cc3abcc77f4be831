"""Libraries that are there only where the extra `benchmarks` was installed."""

import importlib
from typing import Any

from evals.errors import EvalsError


def optional(name: str, purpose: str) -> Any:
    """Import a library. Raises EvalsError with what to type where it is missing or broken."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        state = "is not installed" if missing else f"cannot be imported ({error})"
        raise EvalsError(
            f"{name} {state}, and it is needed {purpose}; "
            "type: pip install 'populab-evals[benchmarks]'"
        ) from None
