"""The exceptions of the package: one root that is a ValueError."""


class EvalsError(ValueError):
    """Root of every error this package raises on purpose: what was found, what to type."""


class SettingsChanged(EvalsError):
    """An output folder holds the samples of a run with other settings."""
