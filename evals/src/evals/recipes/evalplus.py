"""evalplus' prompts for HumanEval+ and MBPP+ (evalplus 0.3.1: codegen.py, provider/utility.py)."""

from evals.recipes.recipe import Recipe, Template

_SOURCE = "evalplus 0.3.1"
_MAX_TOKENS = 768
_STOP = ("<|endoftext|>", "<|endofmask|>", "</s>", "\nif __name__", "\ndef main(", "\nprint(")
_JUDGING: dict[str, float | str] = {"min_time_s": 1.0, "time_factor": 4.0}

CHAT_TEMPLATE = Template(
    text=(
        "Please provide a self-contained Python script that solves the following problem in a "
        "markdown code block:\n```\n{prompt}\n```\n"
    ),
    mode="chat",
    max_tokens=_MAX_TOKENS,
    source=_SOURCE,
    stop=(*_STOP, "\n```\n"),
    response_prefix=(
        "Below is a Python script with a self-contained function that solves the problem and "
        "passes corresponding tests:\n```python\n"
    ),
    stripped=True,
    tabs=4,
)


def _completion(*stop: str) -> Template:
    return Template(
        text="{prompt}\n",
        mode="completion",
        max_tokens=_MAX_TOKENS,
        source=_SOURCE,
        stop=(*_STOP, *stop),
        stripped=True,
        continues=True,
        tabs=4,
    )


EVALPLUS = Recipe(
    name="evalplus",
    description="evalplus' chat prompt, the answer begun for the model",
    templates={"humaneval_plus": CHAT_TEMPLATE, "mbpp_plus": CHAT_TEMPLATE},
    judging={"humaneval_plus": _JUDGING, "mbpp_plus": _JUDGING},
)

EVALPLUS_COMPLETION = Recipe(
    name="evalplus-completion",
    description="evalplus' direct completion (--force-base-prompt)",
    templates={
        "humaneval_plus": _completion("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert "),
        "mbpp_plus": _completion('\n"""', "\nassert"),
    },
    judging=EVALPLUS.judging,
)
