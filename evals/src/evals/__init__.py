"""Code and math benchmarks on saved LoRA adapters."""

from evals.catalog import benchmark_names, load_benchmark
from evals.errors import EvalsError, SettingsChanged
from evals.evaluation import evaluate
from evals.installation import __version__
from evals.math.problems import check_golds, math_reward, math_score
from evals.members import Group, Members, find_members
from evals.question import Benchmark, Data, Grading, Question, Sample, SampleVerdict
from evals.recipes import RECIPES, Recipe, Template, plain
from evals.run import Run, read_runs
from evals.scores import Row
from evals.tables import Table, build_table

__all__ = [
    "RECIPES", "Benchmark", "Data", "EvalsError", "Grading", "Group", "Members", "Question",
    "Recipe", "Row", "Run", "Sample", "SampleVerdict", "SettingsChanged", "Table", "Template",
    "__version__", "benchmark_names", "build_table", "check_golds", "evaluate", "find_members",
    "load_benchmark", "math_reward", "math_score", "plain", "read_runs",
]  # fmt: skip
