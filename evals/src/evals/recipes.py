"""How benchmarks are asked: everything that decides what a model sees and how it samples; and where
its response ends. `recipes.toml` has the recipes.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from evals.errors import EvalsError
from lora_evo import first_line

CODE = ("humaneval_plus", "mbpp_plus", "livecodebench")
CRUXEVAL = ("cruxeval_o", "cruxeval_i")
MATH = ("aime24", "aime25", "amc23", "math500", "olympiadbench", "minerva_math", "gsm8k")
"""CODE and MATH are PopuLoRA's ten benchmarks; Absolute Zero's are the same without gsm8k."""


@dataclass(frozen=True)
class Template:
    """The prompt of one benchmark.

    mode: in chat the tokenizer's chat template makes the turns, in completion the text is the
    prompt; never guessed, for Qwen2.5's base models ship a chat template, too. text: with {fields}
    of the problem in it; other braces stay. stripped: fields lose white space at both ends. system:
    a system turn (chat only). response_prefix: what the answer begins with, written for the model.
    starter, no_starter: what {format} becomes for a problem with and without starter code. stop:
    texts that end a response and do not belong to it. continues: the solution is the prompt
    followed by the response. tabs: spaces that replace a tab in the response; None leaves them.
    max_tokens: of the response. source: where it was published.
    """

    text: str
    mode: Literal["chat", "completion"]
    max_tokens: int
    source: str
    stop: tuple[str, ...] = ()
    system: str | None = None
    response_prefix: str = ""
    starter: str = ""
    no_starter: str = ""
    stripped: bool = False
    continues: bool = False
    tabs: int | None = None


@dataclass(frozen=True)
class Limits:
    """How a benchmark's published scripts grade, which a comparable run needs.

    min_time_s, time_factor: processor seconds that a call of HumanEval+ and MBPP+ may take: as many
    times the reference's, and no less than the former. timeout_s: of a test of LiveCodeBench;
    program: how its programs are found, as the official scripts or as Absolute Zero's do.
    """

    min_time_s: float = 1.0
    time_factor: float = 4.0
    timeout_s: float = 6.0
    program: Literal["official", "azr"] = "official"


@dataclass(frozen=True)
class Recipe:
    """A protocol by name: templates by benchmark, sampling, and settings of grading.

    temperature 0 is greedy. grading: benchmark -> how its published scripts grade.
    """

    name: str
    description: str
    templates: Mapping[str, Template]
    temperature: float = 0.0
    n: int = 1
    grading: Mapping[str, Limits] = field(default_factory=dict)

    def template(self, benchmark: str) -> Template:
        """Raises EvalsError for a benchmark that the recipe does not cover."""
        if benchmark not in self.templates:
            raise EvalsError(
                f"recipe {self.name!r} has no template for {benchmark!r}; "
                f"it covers {', '.join(self.templates)}"
            )
        return self.templates[benchmark]

    def settings(self, benchmark: str) -> dict[str, Any]:
        """What is stored with a result of one benchmark, the template's texts included."""
        template = asdict(self.template(benchmark))
        limits = vars(self.grading.get(benchmark, Limits()))
        return {
            "recipe": self.name,
            "template": template | {"stop": list(template["stop"])},
            "grading": {k: v for k, v in limits.items() if v != getattr(Limits, k)},
        }


def _read_recipes() -> dict[str, Recipe]:
    rows = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8"))
    written = {
        name: Template(**row | {"stop": tuple(row.get("stop", ()))})
        for name, row in rows["templates"].items()
    }
    recipes = {}
    for name, row in rows["recipes"].items():
        templates = {benchmark: written[one] for benchmark, one in row["templates"].items()}
        if math := templates.pop("math", None):
            templates |= dict.fromkeys(MATH, math)
        grading = {
            benchmark: Limits(**limits) for benchmark, limits in row.get("grading", {}).items()
        }
        recipes[name] = Recipe(name, row["description"], templates, grading=grading)
    return recipes


RECIPES: Mapping[str, Recipe] = _read_recipes()
CHAT = RECIPES["chat"]

_FIELD = re.compile(r"\{(\w+)\}")
_HERE = "\x02the response goes on here\x03"
_TODAY = date(2024, 7, 26)
"""What chat templates show as today: the date that Llama's show where they know none. A prompt must
not change with the day on which a run is resumed, or a member evaluated."""


def render(
    recipe: Recipe,
    benchmark: str,
    fields: Mapping[str, str],
    tokenizer: Any = None,
    chat_template_args: Mapping[str, Any] | None = None,
) -> str:
    """The prompt of one problem.

    fields: `prompt` for HumanEval+ and MBPP+; `question`, and `starter_code` where the problem
    has some, for LiveCodeBench; `question` for math. tokenizer: needed in chat mode only. Chat
    text holds the template's own special tokens: encode it with add_special_tokens=False.
    chat_template_args: what the chat template takes besides the turns, such as enable_thinking.

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
            "template; choose a recipe in completion mode: evalplus-completion for functions, azr "
            "for the others"
        )
    return _chat(template, text, tokenizer, chat_template_args or {})


def _chat(template: Template, text: str, tokenizer: Any, more: Mapping[str, Any]) -> str:
    turns = [{"role": "system", "content": template.system}] if template.system else []
    turns.append({"role": "user", "content": text})
    prefix = template.response_prefix
    if prefix:
        # As evalplus does it: write the whole turn, and cut it where the model goes on.
        turns.append({"role": "assistant", "content": f"{prefix}{_HERE}\n```\n"})
    dated = {"strftime_now": _TODAY.strftime, **more}  # goes before transformers' own
    try:
        whole = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=not prefix, **dated
        )
    except Exception as error:  # templates raise what they like, e.g. for a system turn
        raise EvalsError(
            f"the tokenizer's chat template refuses the prompt: {first_line(error)}"
        ) from None
    if prefix and _HERE not in whole:
        raise EvalsError("the tokenizer's chat template drops the begun answer; use recipe 'chat'")
    return str(whole).split(_HERE)[0]


def _fill(template: Template, fields: Mapping[str, str], place: str) -> str:
    """Put fields in; what is in a field is never looked at again."""
    known = {key: value.strip() if template.stripped else value for key, value in fields.items()}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name == "format":
            return _FIELD.sub(value, template.starter if has_starter else template.no_starter)
        if name not in known:
            raise EvalsError(
                f"{place}: the problem has no field {name!r}; found {', '.join(fields) or 'none'}"
            )
        return known[name]

    has_starter = bool(fields.get("starter_code"))
    return _FIELD.sub(value, template.text)


def plain(benchmark: str, max_tokens: int) -> Recipe:
    """The field `prompt` of a question is the prompt, as it is. max_tokens: of a response."""
    template = Template(
        text="{prompt}", mode="completion", max_tokens=max_tokens, source="the benchmark"
    )
    return Recipe("plain", "the benchmark's own texts, as they are", {benchmark: template})


_OPEN, _CLOSE = "<think>", "</think>"
_FENCED = re.compile(r"```\w*[ \t]*\n[^`]*(?:`(?!``)[^`]*)*```(?!\w)")
_TURN = re.compile(
    r"(?=[\n<\[])(?:(?:\n|</answer>)(?P<turn>(?P<space>[ \t]*)(?:\#{2,6}[ ]?)?"
    r"(?P<who>Q|Question|Problem|Task|Human|User|Assistant)[ \t]*+(?:\d++[ \t]*+)?:)"
    r"|(?P<token><(?:\|(?:im_start|im_end|endoftext|endofmask|eot_id|start_header_id|end|user"
    r"|assistant|system)\|>|(?:start|end)_of_turn>|/s>)|\[INST\]))"
)
"""What begins or ends a turn, in our prompts, in other usual ones, and in chat templates."""


def own_turn(
    response: str,
    template: Template | None,
    answered: Callable[[str], object],
    *,
    code: bool = False,
) -> str:
    """Return a response up to where it goes on with a turn that the model made up itself.

    A chat template's token ends it, and so does "User:" at a line's start where the prompt is made
    of such turns. Any other marker ("Question:", "Problem:", ...) does once the text since the
    last one is an answer: `answered` is true of it. Thoughts are passed over, and in code fenced
    blocks and what is indented; what a template `continues` ends at any marker.
    """
    text, thoughts = _without_thoughts(response)
    searched = _FENCED.sub(lambda fence: "`" * len(fence[0]), text) if code else text
    start, first = thoughts, len(response) - len(response.lstrip())
    for match in _TURN.finditer(searched):
        token = match["token"] is not None
        end = match.start("token" if token else "turn")
        if end <= first or (not token and (end < thoughts or (code and match["space"]))):
            continue
        certain = template is not None and (
            template.continues or (match["who"] == "User" and "User:" in template.text)
        )
        if token or certain or answered(text[start:end]):
            return response[:end]
        start = end
    return response


def _without_thoughts(response: str) -> tuple[str, int]:
    """A response with zeros for each thought that it opens and closes, and the length of a thought
    before them that the prompt opened."""
    parts: list[str] = []
    end = opened = 0
    while (close := response.find(_CLOSE, end)) >= 0:
        begin, after = response.rfind(_OPEN, end, close), close + len(_CLOSE)
        if begin < 0:
            begin, opened = after, opened if end else after
        parts += [response[end:begin], "\0" * (after - begin)]
        end = after
    return "".join((*parts, response[end:])), opened
