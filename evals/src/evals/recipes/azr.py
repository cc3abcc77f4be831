"""Absolute Zero's prompts and settings, which PopuLoRA's tables follow.

From LeapLabTHU/Absolute-Zero-Reasoner at a82124e: evaluation/code_eval (scripts, and the AZR
prompt of its LiveCodeBench copy) and evaluation/math_eval (run.sh, eval/utils.py). One greedy
sample a problem. Its evalplus script does not pass the `azr` prompt of its evalplus copy, so
HumanEval+ and MBPP+ are asked as evalplus does. GSM8K is PopuLoRA's addition, asked as the other
math benchmarks.
"""

from evals.metrics.aggregate import MATH
from evals.recipes.evalplus import CHAT_TEMPLATE
from evals.recipes.livecodebench import NO_STARTER, STARTER
from evals.recipes.recipe import Recipe, Template

_SOURCE = "Absolute-Zero-Reasoner a82124e"
_PREAMBLE = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant "
    "solves it. The assistant first thinks about the reasoning process in the mind and then "
    "provides the user with the answer. The reasoning process and answer are enclosed within "
    "<think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning process "
    "here </think> <answer> answer here </answer>. "
)
_BOXED = "And your final answer will be extracted automatically by the \\boxed{} tag. "

_LIVECODEBENCH = Template(
    text=(
        _PREAMBLE + "User: \n# Task: You will be given a question (problem specification) and "
        "will generate a correct Python program that matches the specification and passes all "
        "tests. Your final answer should be wrapped in ```python``` tags.\n\n"
        "Question: {question}\n\n{format}Assistant: <think>"
    ),
    mode="completion",
    max_tokens=8096,
    source=_SOURCE,
    starter=STARTER,
    no_starter=NO_STARTER,
)


def _math(preamble: str) -> Template:
    return Template(
        text=preamble + "User: {question}\nAssistant:",
        mode="completion",
        max_tokens=16000,
        source=_SOURCE,
        stop=("</s>", "<|im_end|>", "<|endoftext|>"),
        stripped=True,
    )


def _recipe(name: str, description: str, math: Template) -> Recipe:
    limits: dict[str, float | str] = {"min_time_s": 10.0, "time_factor": 8.0}
    return Recipe(
        name=name,
        description=description,
        templates={
            "humaneval_plus": CHAT_TEMPLATE,
            "mbpp_plus": CHAT_TEMPLATE,
            "livecodebench": _LIVECODEBENCH,
            **dict.fromkeys(MATH, math),
        },
        judging={
            "humaneval_plus": limits,
            "mbpp_plus": limits,
            "livecodebench": {"timeout_s": 60.0, "program": "azr"},
        },
    )


AZR = _recipe("azr", "Absolute Zero and PopuLoRA: think and answer tags, greedy", _math(_PREAMBLE))
AZR_BOXED = _recipe(
    "azr-boxed",
    "the same with a boxed answer in math, Absolute Zero's choice for Coder-7B",
    _math(_PREAMBLE + _BOXED),
)
