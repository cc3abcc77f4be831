"""PopuLoRA: co-evolving populations of LoRA teachers and students."""

__version__ = "0.1.0"
