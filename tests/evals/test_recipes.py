"""Prompts of the named recipes, in chat and completion mode."""

import json
from pathlib import Path

import pytest
from json_lines import write_rows
from sums import TableEngine, sums
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from code_verifier.answers import find_program
from evals import RECIPES, Data, EvalsError, evaluate, load_benchmark
from evals.code.programs import azr_program, extract_program, find_answer, official_program
from evals.evaluation import choose_recipe, make_plan
from evals.recipes import CHAT, CODE, CRUXEVAL, MATH, own_turn, render, template_of
from evals.records import recipe_next_to

TURNS = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
FUNCTION = {"prompt": '\ndef twice(x):\n    """2 * x"""\n'}
QUESTION = {"question": " What is {1} + \\frac{1}{2}? \n"}


def tokenizer(template):
    found = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocab={}, merges=[])))
    found.chat_template = template
    return found


def test_every_recipe_states_its_mode_and_renders_every_benchmark_it_covers():
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
            assert template_of(stored["template"]) == template
    for name in ("azr", "azr-boxed", "chat"):
        assert set(RECIPES[name].templates) == {*CODE, *CRUXEVAL, *MATH}


def test_evalplus_chat_begins_the_answer_for_the_model():
    text = render(RECIPES["evalplus"], "humaneval_plus", FUNCTION, tokenizer(TURNS))
    assert text == (
        "<|user|>Please provide a self-contained Python script that solves the following problem "
        'in a markdown code block:\n```\ndef twice(x):\n    """2 * x"""\n```\n<|end|>'
        "<|assistant|>Below is a Python script with a self-contained function that solves the "
        "problem and passes corresponding tests:\n```python\n"
    )


def test_livecodebench_has_two_forms():
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
def test_chat_mode_needs_a_chat_template(broken):
    with pytest.raises(EvalsError, match=r"no chat template; .*: evalplus-completion") as caught:
        render(RECIPES["evalplus"], "mbpp_plus", FUNCTION, broken or None)
    assert "\n" not in str(caught.value)


def test_arguments_reach_the_chat_template():
    thinking = tokenizer(TURNS + "{% if not enable_thinking %}<think></think>{% endif %}")
    for wanted in (True, False):
        more = {"enable_thinking": wanted}
        text = render(RECIPES["chat"], "aime24", QUESTION, thinking, more)
        assert text.endswith("<think></think>") != wanted


def test_a_chat_template_shows_the_same_day_whenever_it_is_asked():
    dated = tokenizer(TURNS + "{{ strftime_now('%d %b %Y') }}")
    assert render(RECIPES["chat"], "aime24", QUESTION, dated).endswith("26 Jul 2024")


def test_templates_that_refuse_are_named():
    strict = tokenizer("{{ raise_exception('no system turns') }}")
    with pytest.raises(EvalsError, match="refuses the prompt: no system turns"):
        render(RECIPES["chat"], "livecodebench", {"question": "Q"}, strict)
    forgetful = tokenizer("{{ messages[0]['content'] }}")
    with pytest.raises(EvalsError, match="drops the begun answer"):
        render(RECIPES["evalplus"], "mbpp_plus", FUNCTION, forgetful)


def test_unknown_names_and_missing_fields_are_refused():
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
def test_which_program_an_answer_holds(name):
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


RECIPE = """
[templates.short]
text = "Q: {{question}}\\nA:"
mode = "completion"
max_tokens = 9
source = "mine"
stop = ["Q:"]
shots = 2
shot = "Q: {{question}}\\nA: {{answer}}\\n"
{more}
[recipes.mine]
description = "two examples"
templates.gsm8k = "short"
"""


def rows_of(path, first, count):
    numbers = range(first, first + count)
    return write_rows(path, [{"question": f"{n}+0?", "answer": f"#### {n}"} for n in numbers])


@pytest.mark.parametrize(
    ("more", "numbers"),
    [
        ("", {"0": (1, 2), "1": (0, 2), "5": (0, 1)}),
        ("shot_seed = 3", None),
        ('examples_file = "train.jsonl"', dict.fromkeys("0125", (50, 51))),
        ('examples = [{question = "70+0?", answer = "#### 70"}, {question = "71+0?", '
         'answer = "#### 71"}]', dict.fromkeys("05", (70, 71))),
    ],
)  # fmt: skip
def test_a_recipe_of_ones_own_shows_examples(more, numbers, tmp_path):
    """The first of the benchmark, drawn ones, those of a file, and those of the recipe."""
    recipe = tmp_path / "mine.toml"
    recipe.write_text(RECIPE.format(more=more))
    rows_of(tmp_path / "train.jsonl", 50, 4)
    data = rows_of(tmp_path / "test.jsonl", 0, 6)
    benchmark = load_benchmark("gsm8k", Data(data))
    plan = make_plan(benchmark, recipe=str(recipe))
    prompts = plan.prompts(None)
    for id, (one, other) in (numbers or {}).items():
        shots = "".join(f"Q: {n}+0?\nA: #### {n}\n" for n in (one, other))
        assert prompts[id] == f"{shots}Q: {id}+0?\nA:"
    assert all(text.count(f"Q: {id}+0?") == 1 for id, text in prompts.items())
    assert all(text.count("\nA: ####") == 2 for text in prompts.values())
    part = make_plan(benchmark, recipe=str(recipe), limit=3).prompts(None)
    assert part == {id: prompts[id] for id in "012"}
    other = make_plan(benchmark, recipe=str(recipe), examples=rows_of(tmp_path / "new", 90, 2))
    assert ("90+0?" in other.prompts(None)["0"]) == ("examples = " not in more)
    engine = TableEngine({"A:": "#### 3"})
    (run,) = evaluate(engine, benchmark, recipe=str(recipe), out=tmp_path / "out")
    assert (run.overall.value, engine.asked[0].stop) == (1 / 6, ("Q:",))
    assert run.settings["template"]["shots"] == 2
    found = recipe_next_to(run.folder / "samples.jsonl", "gsm8k")
    assert found.template("gsm8k") == plan.recipe.template("gsm8k")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no file of one recipe"), ("a = ", "no file of one recipe"),
        (RECIPE.format(more="shots = 9").replace("shots = 2\n", ""), "9 examples .* found 6 rows"),
        (RECIPE.format(more='examples_file = "lost"'), "lost"),
        (RECIPE.format(more="").replace("gsm8k", "math500"), "no template for 'gsm8k'"),
    ],
)  # fmt: skip
def test_a_recipe_that_cannot_be_used_is_refused_in_one_line(text, message, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(text)
    benchmark = load_benchmark("gsm8k", Data(rows_of(tmp_path / "test.jsonl", 0, 6)))
    with pytest.raises((EvalsError, OSError), match=message) as caught:
        make_plan(benchmark, recipe=str(recipe)).prompts(None)
    assert "\n" not in str(caught.value)
