"""One problem of HumanEval+ or MBPP+: a function to write, and inputs to try it on."""

from dataclasses import dataclass
from typing import Any

HUMANEVAL, MBPP = "humaneval_plus", "mbpp_plus"
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class FunctionProblem:
    """base_input, plus_input: arguments of each call, as Python values.

    Expected outputs are not part of the data: they are what `prompt + canonical_solution` gives.
    """

    benchmark: str
    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    base_input: tuple[Arguments, ...]
    plus_input: tuple[Arguments, ...]
    atol: float

    @property
    def reference(self) -> str:
        """The program that defines the expected outputs."""
        return self.prompt + self.canonical_solution
