"""Prompts of the named recipes, in chat and completion mode."""

import json
from pathlib import Path

import pytest
from sums import sums
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from code_verifier.answers import find_program
from evals import RECIPES, EvalsError, Template
from evals.code.programs import azr_program, extract_program, find_answer, official_program
from evals.evaluation import choose_recipe
from evals.recipes import CHAT, CODE, CRUXEVAL, MATH, own_turn, render

TURNS = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
FUNCTION = {"prompt": '\ndef twice(x):\n    """2 * x"""\n'}
QUESTION = {"question": " What is {1} + \\frac{1}{2}? \n"}


def tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    found = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab={}, merges=[])))
    found.chat_template = template
    return found


def test_every_recipe_states_its_mode_and_renders_every_benchmark_it_covers() -> None:
    chat = tokenizer(TURNS)
    texts = dict.fromkeys(("question", "starter_code", "code", "input", "output"), "T")
    fields = {**FUNCTION, **texts}
    for recipe in RECIPES.values():
        for benchmark, template in recipe.templates.items():
            assert template.mode in ("chat", "completion")
            assert template.source
            text = render(recipe, benchmark, fields, chat)
            assert ("<|user|>" in text) == (template.mode == "chat")
            stored = json.loads(json.dumps(recipe.settings(benchmark)))
            assert stored["template"]["text"] == template.text
            assert Template(**stored["template"] | {"stop": template.stop}) == template
    for name in ("azr", "azr-boxed", "chat"):
        assert set(RECIPES[name].templates) == {*CODE, *CRUXEVAL, *MATH}


def test_evalplus_chat_begins_the_answer_for_the_model() -> None:
    text = render(RECIPES["evalplus"], "humaneval_plus", FUNCTION, tokenizer(TURNS))
    assert text == (
        "<|user|>Please provide a self-contained Python script that solves the following problem "
        'in a markdown code block:\n```\ndef twice(x):\n    """2 * x"""\n```\n<|end|>'
        "<|assistant|>Below is a Python script with a self-contained function that solves the "
        "problem and passes corresponding tests:\n```python\n"
    )
    template = RECIPES["evalplus"].template("mbpp_plus")
    assert template.stop[-1] == "\n```\n"
    assert (template.max_tokens, template.tabs) == (768, 4)


def test_livecodebench_has_two_forms() -> None:
    azr = RECIPES["azr"]
    reading = render(azr, "livecodebench", {"question": "Add.", "starter_code": ""})
    assert "Question: Add.\n\nRead the inputs from stdin" in reading
    assert reading.endswith("```python\n# YOUR CODE HERE\n```\n\nAssistant: <think>")
    given = render(azr, "livecodebench", {"question": "Add {format}.", "starter_code": "class {x}"})
    assert "Question: Add {format}.\n\nYou will use" in given
    assert "```python\nclass {x}\n```" in given
    official = render(RECIPES["chat"], "livecodebench", {"question": "Add."}, tokenizer(TURNS))
    assert official.startswith("<|system|>You are an expert Python programmer.")
    assert official.endswith("(use the provided format with backticks)\n\n<|end|><|assistant|>")


@pytest.mark.parametrize("broken", [None, "", tokenizer(None), tokenizer("")])
def test_chat_mode_needs_a_chat_template(broken: object) -> None:
    with pytest.raises(EvalsError, match=r"no chat template; .*: evalplus-completion") as caught:
        render(RECIPES["evalplus"], "mbpp_plus", FUNCTION, broken or None)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_arguments_reach_the_chat_template() -> None:
    thinking = tokenizer(TURNS + "{% if not enable_thinking %}<think></think>{% endif %}")
    for wanted in (True, False):
        more = {"enable_thinking": wanted}
        text = render(RECIPES["chat"], "aime24", QUESTION, thinking, more)
        assert text.endswith("<think></think>") != wanted


def test_a_chat_template_shows_the_same_day_whenever_it_is_asked() -> None:
    dated = tokenizer(TURNS + "{{ strftime_now('%d %b %Y') }}")
    assert render(RECIPES["chat"], "aime24", QUESTION, dated).endswith("26 Jul 2024")


def test_templates_that_refuse_are_named() -> None:
    strict = tokenizer("{{ raise_exception('no system turns') }}")
    with pytest.raises(EvalsError, match="refuses the prompt: no system turns"):
        render(RECIPES["chat"], "livecodebench", {"question": "Q"}, strict)
    forgetful = tokenizer("{{ messages[0]['content'] }}")
    with pytest.raises(EvalsError, match="drops the begun answer"):
        render(RECIPES["evalplus"], "mbpp_plus", FUNCTION, forgetful)


def test_unknown_names_and_missing_fields_are_refused() -> None:
    with pytest.raises(EvalsError, match="did you mean 'azr'"):
        choose_recipe(sums(), "azrr")
    with pytest.raises(EvalsError, match="'evalplus' has no template for 'gsm8k'; it covers"):
        render(RECIPES["evalplus"], "gsm8k", QUESTION)
    with pytest.raises(EvalsError, match="math500: the problem has no field 'question'; found a"):
        render(RECIPES["azr"], "math500", {"a": "b"})


P, Q = (f"def f(x):\n    return {n}\nassert f(0) == {n}" for n in (1, 2))
PYTHON, BARE = "```python\n{}\n```\n", "```\n{}\n```\n"
COMPLETIONS = {
    "P in a `python` block": PYTHON.format(P),
    "Q, then P, in `python` blocks": f"{PYTHON.format(Q)}Better:\n{PYTHON.format(P)}",
    "P, then a block with its output": f"{PYTHON.format(P)}It prints\n{BARE.format(5)}",
    "P in a block without a language": BARE.format(P),
    "P between `~~~`": f"~~~python\n{P}\n~~~\n",
    "P without a block": P,
    "P in an answer tag, then Q behind it":
        f"<answer>\n{PYTHON.format(P)}</answer>\nOr\n{PYTHON.format(Q)}",
    "P in a block that never closes": f"```python\n{P}",
    "P in a thought": f"<think>\n{PYTHON.format(P)}",
}  # fmt: skip
NAMES = {P: "P", Q: "Q", "1": "P", "2": "Q", "5": "the output", "": "nothing"}


@pytest.mark.parametrize("name", COMPLETIONS)
def test_which_program_an_answer_holds(name: str) -> None:
    text = COMPLETIONS[name]
    part = own_turn(text, None, lambda _: False, code=True)
    programs = (
        find_program(text, "f"),
        extract_program(part, "f"),
        official_program(part),
        azr_program(part),
        find_answer("code_o", text, CHAT.template("cruxeval_o")),
    )
    cells = [NAMES.get((program or "").strip(), "P and its fences") for program in programs]
    assert all(P in str(p) for p, cell in zip(programs, cells, strict=True) if "its" in cell)
    page = Path(__file__).parents[2] / "docs" / "grading.md"
    assert f"| {' | '.join((name, *cells))} |" in page.read_text(encoding="utf-8").splitlines()
