"""Hardened deterministic Python sandbox, task grading and structural metrics."""

from code_verifier.canonical import canonical
from code_verifier.compare import Comparison
from code_verifier.contrast import Contrast, compare_sets
from code_verifier.diversity import Coverage, coverage
from code_verifier.duplicates import Duplicate, Duplicates, find_duplicates
from code_verifier.errors import (
    CodeVerifierError,
    LiteralError,
    ProgramError,
    RecordError,
    SandboxUnavailable,
)
from code_verifier.fingerprint import fingerprint
from code_verifier.leaks import leaks
from code_verifier.limits import Limits
from code_verifier.literals import (
    canonical_arguments,
    parse_arguments,
    parse_literal,
    tidy_arguments,
)
from code_verifier.metrics import Metrics, measure
from code_verifier.records import Grade, Proposal, Status, Task, Validation, Verdict
from code_verifier.sandbox import Sandbox
from code_verifier.shared import grade
from code_verifier.source import strip_comments

__version__ = "0.1.0"

__all__ = [
    "CodeVerifierError",
    "Comparison",
    "Contrast",
    "Coverage",
    "Duplicate",
    "Duplicates",
    "Grade",
    "Limits",
    "LiteralError",
    "Metrics",
    "ProgramError",
    "Proposal",
    "RecordError",
    "Sandbox",
    "SandboxUnavailable",
    "Status",
    "Task",
    "Validation",
    "Verdict",
    "__version__",
    "canonical",
    "canonical_arguments",
    "compare_sets",
    "coverage",
    "find_duplicates",
    "fingerprint",
    "grade",
    "leaks",
    "measure",
    "parse_arguments",
    "parse_literal",
    "strip_comments",
    "tidy_arguments",
]
