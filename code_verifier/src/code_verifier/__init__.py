"""Hardened deterministic Python sandbox, task grading and structural metrics."""

from code_verifier.errors import (
    CodeVerifierError,
    LiteralError,
    ProgramError,
    RecordError,
    SandboxUnavailable,
)
from code_verifier.literals.canonical import canonical
from code_verifier.literals.comparison import Comparison
from code_verifier.literals.literal import (
    canonical_arguments,
    parse_arguments,
    parse_literal,
    tidy_arguments,
)
from code_verifier.metrics.contrast import Contrast, compare_sets
from code_verifier.metrics.diversity import Coverage, coverage
from code_verifier.metrics.measurement import Metrics, measure
from code_verifier.program.fingerprint import fingerprint
from code_verifier.program.leaks import leaks
from code_verifier.program.source import ParsedProgram, parse_program, strip_comments
from code_verifier.sandbox.sandbox import Sandbox, grade
from code_verifier.tasks.duplicates import Duplicate, Duplicates, find_duplicates
from code_verifier.tasks.limits import Limits
from code_verifier.tasks.outcomes import Grade, Status, Validation, Verdict
from code_verifier.tasks.task import Proposal, Task

__version__ = "0.1.0"

__all__ = ["Grade", "Proposal", "Status", "Task", "Validation", "Verdict"]
__all__ += ["Comparison", "Limits", "Sandbox", "grade"]
__all__ += ["canonical", "canonical_arguments"]
__all__ += ["parse_arguments", "parse_literal", "tidy_arguments"]
__all__ += ["ParsedProgram", "fingerprint", "leaks", "parse_program", "strip_comments"]
__all__ += ["Contrast", "Coverage", "Metrics", "compare_sets", "coverage", "measure"]
__all__ += ["Duplicate", "Duplicates", "find_duplicates"]
__all__ += ["CodeVerifierError", "LiteralError", "ProgramError", "RecordError"]
__all__ += ["SandboxUnavailable", "__version__"]
