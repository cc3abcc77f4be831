"""The one root of every refusal this package makes."""


class LoraEvoError(ValueError):
    """Input that cannot be used: the message says what was found and what to do instead."""


class FileDamage(LoraEvoError):
    """A file on disk is not what its name says: truncated, not safetensors, not JSON."""
