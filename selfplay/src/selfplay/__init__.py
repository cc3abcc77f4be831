"""PopuLoRA: co-evolving populations of LoRA teachers and students."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from selfplay.frames.run import RunFrames as RunFrames
    from selfplay.frames.run import read_run as read_run

__all__ = ["RunFrames", "__version__", "read_run"]


def __getattr__(name: str) -> object:
    """Import what reads runs only when it is asked for: the command line starts without it."""
    if name in ("RunFrames", "read_run"):
        from selfplay.frames.run import RunFrames, read_run

        return {"RunFrames": RunFrames, "read_run": read_run}[name]
    raise AttributeError(f"module 'selfplay' has no attribute {name!r}")
