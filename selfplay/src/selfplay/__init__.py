"""PopuLoRA: co-evolving populations of LoRA teachers and students."""

__version__ = "0.1.0"

__all__ = ["__version__"]
