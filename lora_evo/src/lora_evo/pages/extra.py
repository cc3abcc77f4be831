"""What draws is an extra: the package and its other commands need none of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from lora_evo.errors import LoraEvoError


@contextmanager
def extra_report() -> Iterator[None]:
    """Turn a missing library into one line that says what to type."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise LoraEvoError(
            f"charts and pages need {error.name}; type: pip install 'populab-lora-evo[report]'"
        ) from error


def require_report() -> None:
    """Refuse before any work is done where the extra is missing."""
    with extra_report():
        import_module("lora_evo.pages.frame")
