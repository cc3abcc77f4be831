"""Prompt templates: compact for the nano model, AZR-style for large ones."""
