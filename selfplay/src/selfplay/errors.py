"""Errors that a user can correct."""

from lora_evo import EngineStopped
from lora_evo.terminal import first_line as first_line
from lora_evo.terminal import pip_install as pip_install
from lora_evo.terminal import remedy


class SelfplayError(ValueError):
    """Base class of selfplay's errors: what was found, what was expected, what to type."""


class ConfigError(SelfplayError):
    """A preset, a configuration file or a `--set` that cannot be used."""


class RunDirectoryError(SelfplayError):
    """A run directory that exists already, is missing, or has missing or damaged files."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: a GPU's, or a CPU's as under `ulimit -v`."""
    is_torchs = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return is_torchs or isinstance(error, MemoryError)


def is_refusal(error: BaseException) -> bool:
    """Return whether an error refuses its input: a repetition would end the same way."""
    if isinstance(error, SelfplayError):
        return not remedy(error.__cause__)  # a disk may have more room next time
    from code_verifier import SandboxUnavailable  # slow to import

    stopped = isinstance(error, EngineStopped | SandboxUnavailable)
    stopped = stopped or isinstance(error.__cause__, OSError)
    return isinstance(error, ValueError) and not stopped
