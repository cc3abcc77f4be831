"""The text that a model is given for one problem."""

import re
from collections.abc import Mapping
from typing import Protocol

from evals.errors import EvalsError, did_you_mean
from evals.recipes.azr import AZR, AZR_BOXED
from evals.recipes.chat import CHAT
from evals.recipes.evalplus import EVALPLUS, EVALPLUS_COMPLETION
from evals.recipes.recipe import Recipe, Template

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe for recipe in (AZR, AZR_BOXED, EVALPLUS, EVALPLUS_COMPLETION, CHAT)
}

_FIELD = re.compile(r"\{(\w+)\}")
_HERE = "\x02the response goes on here\x03"


class ChatTokenizer(Protocol):
    """As much of a transformers tokenizer as prompts need."""

    chat_template: object

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str: ...


def find_recipe(name: str) -> Recipe:
    """Raises EvalsError for a name that is not known."""
    if name not in RECIPES:
        raise EvalsError(f"unknown recipe {name!r}; {did_you_mean(name, RECIPES)}")
    return RECIPES[name]


def render(
    recipe: Recipe,
    benchmark: str,
    fields: Mapping[str, str],
    tokenizer: ChatTokenizer | None = None,
) -> str:
    """The prompt of one problem.

    fields: `prompt` for HumanEval+ and MBPP+; `question`, and `starter_code` where the problem
    has some, for LiveCodeBench; `question` for math. tokenizer: needed in chat mode only. Chat
    text holds the template's own special tokens: encode it with add_special_tokens=False.

    Raises EvalsError for a benchmark the recipe does not cover, a missing field, and in chat mode
    for a tokenizer without a chat template.
    """
    template = recipe.template(benchmark)
    text = _fill(template, fields, f"recipe {recipe.name!r}, {benchmark}")
    if template.mode == "completion":
        return text + template.response_prefix
    if tokenizer is None or not tokenizer.chat_template:
        raise EvalsError(
            f"recipe {recipe.name!r} asks {benchmark} in chat mode, and the tokenizer has no chat "
            f"template; choose a recipe in completion mode{_completing(benchmark)}"
        )
    return _chat(template, text, tokenizer)


def _chat(template: Template, text: str, tokenizer: ChatTokenizer) -> str:
    turns = [{"role": "system", "content": template.system}] if template.system else []
    turns.append({"role": "user", "content": text})
    prefix = template.response_prefix
    if prefix:
        # As evalplus does it: the whole turn is written, and cut where the model goes on.
        turns.append({"role": "assistant", "content": f"{prefix}{_HERE}\n```\n"})
    try:
        whole = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=not prefix
        )
    except Exception as error:  # templates raise what they like, e.g. for a system turn
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EvalsError(f"the tokenizer's chat template refuses the prompt: {reason}") from None
    if prefix and _HERE not in whole:
        raise EvalsError("the tokenizer's chat template drops the begun answer; use recipe 'chat'")
    return whole.split(_HERE)[0]


def _fill(template: Template, fields: Mapping[str, str], place: str) -> str:
    """Put fields in; what is in a field is never looked at again."""
    known = {key: value.strip() if template.stripped else value for key, value in fields.items()}

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "format":
            return _FIELD.sub(value, template.starter if has_starter else template.no_starter)
        if name not in known:
            raise EvalsError(
                f"{place}: the problem has no field {name!r}; found {', '.join(fields) or 'none'}"
            )
        return known[name]

    has_starter = bool(fields.get("starter_code"))
    return _FIELD.sub(value, template.text)


def _completing(benchmark: str) -> str:
    names = [
        recipe.name
        for recipe in RECIPES.values()
        if benchmark in recipe.templates and recipe.templates[benchmark].mode == "completion"
    ]
    return f": {', '.join(names)}" if names else ""
