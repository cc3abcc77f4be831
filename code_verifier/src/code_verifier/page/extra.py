"""What draws is an extra: the package and its other commands need none of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from code_verifier.errors import CodeVerifierError


@contextmanager
def extra_report() -> Iterator[None]:
    """Turn a missing library into one line that says what to type."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CodeVerifierError(
            f"charts and pages need {error.name}; type: pip install 'populab-code-verifier[report]'"
        ) from error


def require_report() -> None:
    """Refuse before any work is done where the extra is missing."""
    with extra_report():
        import_module("code_verifier.page.frame")
