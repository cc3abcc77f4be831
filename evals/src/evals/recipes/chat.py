"""The usual prompts for chat models: a code fence for programs, a box for math.

The math sentence is that of Qwen2.5-Math's `qwen25-math-cot` prompt, put behind the question; the
one for functions is evalplus' without the answer that evalplus begins, so that a model may think.
LiveCodeBench is asked in its own words; its scripts' stop text `###` is left out, as it cuts
answers that have headings.
"""

from dataclasses import replace

from evals.metrics.aggregate import MATH
from evals.recipes.evalplus import CHAT_TEMPLATE
from evals.recipes.livecodebench import GENERIC
from evals.recipes.recipe import Recipe, Template

_FUNCTION = replace(
    CHAT_TEMPLATE, response_prefix="", stop=(), max_tokens=4096, source="evalplus 0.3.1, not begun"
)
_BOXED = Template(
    text=("{question}\nPlease reason step by step, and put your final answer within \\boxed{}."),
    mode="chat",
    max_tokens=4096,
    source="Qwen2.5-Math a45202b",
    stripped=True,
)

CHAT = Recipe(
    name="chat",
    description="chat turns: programs in a code fence, math answers in a box",
    templates={
        "humaneval_plus": _FUNCTION,
        "mbpp_plus": _FUNCTION,
        "livecodebench": replace(GENERIC, stop=(), max_tokens=4096),
        **dict.fromkeys(MATH, _BOXED),
    },
)
