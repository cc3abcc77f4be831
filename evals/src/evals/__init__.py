"""Code and math benchmarks on saved LoRA adapters."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

from evals.benchmarks.benchmark import Benchmark, Judgement, Judging, Question, Sample
from evals.benchmarks.catalog import BENCHMARKS, load_benchmark
from evals.benchmarks.data import Data
from evals.engine.request import Completion, Engine, Request
from evals.errors import EvalsError, SettingsChanged
from evals.frames.results import Results, read_results
from evals.metrics.estimate import Estimate, estimate
from evals.metrics.paired import Comparison, compare
from evals.recipes.plain import plain
from evals.recipes.recipe import Recipe, Template
from evals.recipes.render import RECIPES
from evals.runs.evaluation import evaluate, evaluate_together
from evals.runs.result import Result, Score
from evals.tables.table import Table, build_table

if TYPE_CHECKING:
    from evals.engine.hf import HFEngine as HFEngine
    from evals.vllm_engine.saved import VLLMEngine as VLLMEngine

__all__ = [
    "BENCHMARKS",
    "RECIPES",
    "Benchmark",
    "Comparison",
    "Completion",
    "Data",
    "Engine",
    "Estimate",
    "EvalsError",
    "HFEngine",
    "Judgement",
    "Judging",
    "Question",
    "Recipe",
    "Request",
    "Result",
    "Results",
    "Sample",
    "Score",
    "SettingsChanged",
    "Table",
    "Template",
    "VLLMEngine",
    "__version__",
    "build_table",
    "compare",
    "estimate",
    "evaluate",
    "evaluate_together",
    "load_benchmark",
    "plain",
    "read_results",
]


def __getattr__(name: str) -> object:
    """Import an engine, and with it torch and transformers, only when it is asked for."""
    if name == "HFEngine":
        from evals.engine.hf import HFEngine

        return HFEngine
    if name == "VLLMEngine":
        from evals.vllm_engine.saved import VLLMEngine

        return VLLMEngine
    raise AttributeError(f"module 'evals' has no attribute {name!r}")
