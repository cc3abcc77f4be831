"""Hardened deterministic Python sandbox, task grading and structural metrics."""

from code_verifier.answers import code_blocks, thought_pattern, without_thoughts
from code_verifier.canonical import canonical
from code_verifier.errors import (
    CodeVerifierError,
    LiteralError,
    ProgramError,
    SandboxUnavailable,
    Status,
)
from code_verifier.literals import Comparison, parse_arguments, parse_literal
from code_verifier.metrics import Metrics, measure
from code_verifier.parallel import cores, ordered_map, stop_on_signals
from code_verifier.rewards import (
    completion_text,
    compute_score,
    tests_reward,
    trl_reward,
    verifiers_reward,
)
from code_verifier.sandbox import Sandbox, grade
from code_verifier.scripts.grades import run_tests
from code_verifier.scripts.runner import Calls, ScriptRunner, Value
from code_verifier.scripts.suites import read_tests
from code_verifier.syntax import bound_names, parse_program, strip_comments
from code_verifier.tasks import Grade, Limits, Proposal, Task, Verdict
from code_verifier.tasksets import Tasksets
from code_verifier.user_files import read_rows
from code_verifier.values import read_value

__version__ = "0.1.0"

__all__ = [
    "Calls", "CodeVerifierError", "Comparison", "Grade", "Limits", "LiteralError", "Metrics",
    "ProgramError", "Proposal", "Sandbox", "SandboxUnavailable", "ScriptRunner", "Status",
    "Task", "Tasksets", "Value", "Verdict", "bound_names", "canonical", "code_blocks",
    "completion_text", "compute_score", "cores", "grade", "measure", "ordered_map",
    "parse_arguments", "parse_literal", "parse_program", "read_rows", "read_tests",
    "read_value", "run_tests", "stop_on_signals", "strip_comments", "tests_reward",
    "thought_pattern", "trl_reward", "verifiers_reward", "without_thoughts",
]  # fmt: skip
