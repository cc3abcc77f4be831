"""Code and math benchmarks on saved LoRA adapters."""

__version__ = "0.1.0"
