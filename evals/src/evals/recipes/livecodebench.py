"""LiveCodeBench's own prompt (LiveCodeBench 28fef95, lcb_runner/prompts/code_generation.py)."""

from evals.recipes.recipe import Template

_WITH = (
    "You will use the following starter code to write the solution to the problem and enclose "
    "your code within delimiters."
)
_WITHOUT = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly "
    "test on the sample inputs). Enclose your code within delimiters as follows. Ensure that when "
    "the python program runs, it reads the inputs, runs the algorithm and writes output to STDOUT."
)
_STARTER_BLOCK = "\n```python\n{starter_code}\n```\n\n"
_EMPTY_BLOCK = "\n```python\n# YOUR CODE HERE\n```\n\n"

STARTER = _WITH + _STARTER_BLOCK
NO_STARTER = _WITHOUT + _EMPTY_BLOCK

GENERIC = Template(
    text=(
        "### Question:\n{question}\n\n### Format: {format}"
        "### Answer: (use the provided format with backticks)\n\n"
    ),
    mode="chat",
    max_tokens=2000,
    source="LiveCodeBench 28fef95, generic",
    stop=("###",),
    system=(
        "You are an expert Python programmer. You will be given a question (problem "
        "specification) and will generate a correct Python program that matches the "
        "specification and passes all tests."
    ),
    starter=STARTER,
    no_starter=NO_STARTER,
)
