"""Small adapters, made on the spot."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from by_hand import build_adapter

from lora_evo import save_adapter

if find_spec("transformers"):
    from tiny_models import adapter_folders, engine, model_folder
    from tiny_models import make_adapter as make_saved_adapter
    from tiny_stack import tiny

    __all__ = ["adapter_folders", "engine", "make_saved_adapter", "model_folder", "tiny"]
else:  # what opens a base model needs the extra `model`
    collect_ignore = [
        file.name
        for file in Path(__file__).parent.glob("test_*.py")
        if "lora_evo.model" in file.read_text(encoding="utf-8")
    ]


@pytest.fixture(scope="session")
def make_adapter():
    return build_adapter


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    """A folder with two adapters, p1 and p2, to work in."""
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        save_adapter(make_adapter(seed), tmp_path / f"p{seed}")
    return tmp_path
