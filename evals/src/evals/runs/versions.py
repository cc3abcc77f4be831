"""Versions of what a result depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

import code_verifier
from evals import __version__

_PACKAGES = ("click", "torch", "transformers", "math-verify")


def versions() -> dict[str, str]:
    """Name -> version of Python, of our packages, and of the packages under them."""
    found = {
        "python": platform.python_version(),
        "evals": __version__,
        "code_verifier": code_verifier.__version__,
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
