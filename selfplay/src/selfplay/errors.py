"""Errors a user can mend: each says what was found, what was expected and what to type."""


class SelfplayError(ValueError):
    """Root of the errors that selfplay raises about its input."""


class ConfigError(SelfplayError):
    """A preset, a configuration file or a `--set` that does not fit."""


class RunDirectoryError(SelfplayError):
    """A run directory that exists, is missing, or does not hold what it should."""
