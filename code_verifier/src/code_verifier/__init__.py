"""Hardened deterministic Python sandbox, task grading and structural metrics."""

__version__ = "0.1.0"
