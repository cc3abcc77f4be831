"""A tiny random model, and adapters on it."""

from tiny_models import adapter_folders, engine, make_adapter, model_folder

__all__ = ["adapter_folders", "engine", "make_adapter", "model_folder"]
