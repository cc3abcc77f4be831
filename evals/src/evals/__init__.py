"""Code and math benchmarks on saved LoRA adapters."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

from evals.benchmarks.benchmark import Benchmark, Judgement, Question, Sample
from evals.benchmarks.catalog import BENCHMARKS, load_benchmark
from evals.engine.request import Completion, Engine, Request
from evals.errors import EvalsError, SettingsChanged
from evals.runs.evaluation import evaluate
from evals.runs.result import Result, Score

if TYPE_CHECKING:
    from evals.engine.hf import HFEngine as HFEngine

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "Completion",
    "Engine",
    "EvalsError",
    "HFEngine",
    "Judgement",
    "Question",
    "Request",
    "Result",
    "Sample",
    "Score",
    "SettingsChanged",
    "__version__",
    "evaluate",
    "load_benchmark",
]


def __getattr__(name: str) -> object:
    """Import the engine, and with it torch and transformers, only when it is asked for."""
    if name == "HFEngine":
        from evals.engine.hf import HFEngine

        return HFEngine
    raise AttributeError(f"module 'evals' has no attribute {name!r}")
