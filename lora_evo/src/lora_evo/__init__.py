"""Mutation, crossover and lineage of PEFT-format LoRA adapters, from files alone."""

__version__ = "0.1.0"
