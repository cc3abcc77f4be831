"""Recipes: how benchmarks are asked, that is prompts and sampling, and where a response ends.

`recipes.toml` has the recipes.
"""

import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from code_verifier import thought_pattern, without_thoughts
from evals.errors import EvalsError, did_you_mean
from lora_evo.terminal import first_line

CODE = ("humaneval_plus", "mbpp_plus", "livecodebench")
CRUXEVAL = ("cruxeval_o", "cruxeval_i")
MATH = ("aime24", "aime25", "amc23", "math500", "olympiadbench", "minerva_math", "gsm8k")
"""CODE and MATH are PopuLoRA's ten benchmarks; Absolute Zero's are the same without gsm8k."""


@dataclass(frozen=True)
class Template:
    """The prompt of one benchmark.

    mode: in chat the tokenizer's chat template makes the turns, in completion the text is the
    prompt; never guessed, because some base models ship a chat template (Qwen2.5). text: with
    {fields} of the problem; other braces stay. stripped: fields lose white space at both ends.
    system: a system turn (chat only); `{system}` is a field. response_prefix: beginning of the
    answer, given to the model. starter, no_starter: text for {format}, of a problem with and
    without starter code. stop: texts that end a response and do not belong to it. continues: the
    solution is the prompt followed by the response. tabs: spaces that replace a tab in the
    response; None keeps tabs. max_tokens: of the response. source: where it was published.

    shots: examples before the text, each `shot` with {fields} of its own. They are the first ones,
    or drawn by shot_seed, as lm-evaluation-harness draws them, from `examples`, the rows of
    examples_file, or else the benchmark's other questions.
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
    shots: int = 0
    shot: str = ""
    shot_seed: int | None = None
    examples: tuple[Mapping[str, str], ...] = ()
    examples_file: str = ""


_SHOTS = ("shots", "shot", "shot_seed", "examples", "examples_file")


@dataclass(frozen=True)
class Limits:
    """How a benchmark's published scripts grade, so that scores can be compared. min_time_s,
    time_factor: processor seconds that a call of HumanEval+ and MBPP+ may take: at least
    `min_time_s`, `time_factor` times the reference's. timeout_s: those of a LiveCodeBench test.
    program: these programs are extracted as by the official scripts or Absolute Zero's."""

    min_time_s: float = 1.0
    time_factor: float = 4.0
    timeout_s: float = 6.0
    program: Literal["official", "azr"] = "official"


@dataclass(frozen=True)
class Recipe:
    """A protocol by name: templates by benchmark, sampling, and settings of grading. temperature 0
    is greedy. grading: benchmark -> how its published scripts grade."""

    name: str
    description: str
    templates: Mapping[str, Template]
    temperature: float = 0.0
    n: int = 1
    grading: Mapping[str, Limits] = field(default_factory=dict)

    def template(self, benchmark: str) -> Template:
        """Return the template of a benchmark. Raises EvalsError if the recipe has none."""
        if benchmark not in self.templates:
            covered = ", ".join(self.templates)
            fault = f"recipe {self.name!r} has no template for {benchmark!r}"
            raise EvalsError(f"{fault}; it covers {covered}")
        return self.templates[benchmark]

    def covering(self, benchmark: str, like: str) -> "Recipe":
        """Return the recipe with a benchmark that is asked as another one, if it covers that."""
        if benchmark in self.templates or like not in self.templates:
            return self
        templates = {**self.templates, benchmark: self.templates[like]}
        grading = {**self.grading, benchmark: self.grading.get(like, Limits())}
        return replace(self, templates=templates, grading=grading)

    def settings(self, benchmark: str) -> dict[str, Any]:
        """Return the settings that are stored with a result, the template's texts included."""
        template = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self.template(benchmark)).items()
            if name not in _SHOTS or value != getattr(Template, name)
        }
        limits = vars(self.grading.get(benchmark, Limits())).items()
        grading = {name: value for name, value in limits if value != getattr(Limits, name)}
        return {"recipe": self.name, "template": template, "grading": grading}


def find_recipe(name: str) -> Recipe:
    """Return a recipe by its name, or the one in a TOML file of the form of `recipes.toml`, whose
    templates may name an examples_file next to it. Raises EvalsError in one line."""
    if name in RECIPES:
        return RECIPES[name]
    if not name.endswith(".toml"):
        raise EvalsError(f"unknown recipe {name!r}; {did_you_mean(name, RECIPES)}")
    try:
        (recipe,) = _read_recipes(Path(name)).values()
        return recipe
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        form = "expected one [recipes.NAME] and its [templates.NAME], as docs/grading.md shows"
        raise EvalsError(f"{name} is no file of one recipe ({first_line(error)}); {form}") from None


def template_of(row: Mapping[str, Any], folder: Path | None = None) -> Template:
    """Return the template of a row of TOML or JSON. Raises TypeError."""
    parts: dict[str, Any] = {n: tuple(row[n]) for n in ("stop", "examples") if n in row}
    if folder is not None and row.get("examples_file"):
        parts["examples_file"] = str(folder / row["examples_file"])
    return Template(**{**row, **parts})


def _read_recipes(path: Path) -> dict[str, Recipe]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    folder = path.parent if path != _OURS else None
    by_name = {name: template_of(row, folder) for name, row in rows["templates"].items()}
    recipes = {}
    for name, row in rows["recipes"].items():
        templates = {benchmark: by_name[text] for benchmark, text in row["templates"].items()}
        if math := templates.pop("math", None):
            templates |= dict.fromkeys(MATH, math)
        grading = {name: Limits(**limits) for name, limits in row.get("grading", {}).items()}
        recipes[name] = Recipe(name, row["description"], templates, grading=grading)
    return recipes


_OURS = Path(__file__).with_name("recipes.toml")
RECIPES: Mapping[str, Recipe] = _read_recipes(_OURS)
CHAT = RECIPES["chat"]


def draw_shots(
    template: Template, questions: Sequence[Mapping[str, str]], rows: Sequence[Mapping[str, Any]]
) -> Iterator[list[Mapping[str, str]]]:
    """Yield the examples before each question. questions: the fields of all, in their order. rows:
    those of the examples_file. Raises EvalsError where there are too few."""
    pool = template.examples or rows or questions
    draw, needed = random.Random(template.shot_seed), template.shots + (pool is questions)
    if len(pool) < needed:
        raise EvalsError(f"{template.shots} examples are asked for; found {len(pool)} rows")
    for question in questions:
        shots = list(pool)
        if template.shots and template.shot_seed is not None:
            shots = draw.sample(shots, needed)
        yield [shot for shot in shots if shot is not question][: template.shots]


_FIELD = re.compile(r"\{(\w+)\}")
_HERE = "\x02the response goes on here\x03"
_TODAY = date(2024, 7, 26)
"""The date that chat templates show as today, the default of Llama's. A prompt must not change with
the day on which a run is resumed, or a member evaluated."""


def render(
    recipe: Recipe,
    benchmark: str,
    fields: Mapping[str, str],
    tokenizer: Any = None,
    chat_template_args: Mapping[str, Any] | None = None,
    shots: Iterable[Mapping[str, str]] = (),
) -> str:
    """Return the prompt of one problem, behind examples (see `draw_shots`).

    fields: `prompt` for HumanEval+ and MBPP+; `question`, and `starter_code` if the problem has
    some, for LiveCodeBench; `question` for math. tokenizer: needed in chat mode only. A chat prompt
    holds special tokens: encode it with add_special_tokens=False. chat_template_args: more for the
    chat template, such as enable_thinking. Raises EvalsError for a benchmark that the recipe does
    not cover, a missing field, and in chat mode for a tokenizer without a chat template.
    """
    template, place = recipe.template(benchmark), f"recipe {recipe.name!r}, {benchmark}"
    text = "".join(_fill(replace(template, text=template.shot), shot, place) for shot in shots)
    text += _fill(template, fields, place)
    if template.mode == "completion":
        return text + template.response_prefix
    if tokenizer is None or not tokenizer.chat_template:
        raise EvalsError(
            f"recipe {recipe.name!r} asks {benchmark} in chat mode, and the tokenizer has no chat "
            "template; choose a recipe in completion mode: evalplus-completion for functions, azr "
            "for the others"
        )
    system = fields.get("system") if template.system == "{system}" else template.system
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": text})
    if prefix := template.response_prefix:
        # As evalplus does: write a whole turn, and cut it where the model continues.
        turns.append({"role": "assistant", "content": f"{prefix}{_HERE}\n```\n"})
    more: dict[str, Any] = {"strftime_now": _TODAY.strftime}  # in place of transformers' function
    more |= chat_template_args or {}
    try:
        text = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=not prefix, **more
        )
    except Exception as error:  # templates may raise anything, e.g. for a system turn
        reason = first_line(error)
        raise EvalsError(f"the tokenizer's chat template refuses the prompt: {reason}") from None
    if prefix and _HERE not in text:
        raise EvalsError("the tokenizer's chat template drops the begun answer; use recipe 'chat'")
    return str(text).split(_HERE)[0]


def _fill(template: Template, fields: Mapping[str, str], place: str) -> str:
    """The template's text with fields in it; braces inside a field stay."""
    starter = template.starter if fields.get("starter_code") else template.no_starter

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name == "format":
            return _FIELD.sub(value, starter)
        if name not in fields:
            names = ", ".join(fields) or "none"
            raise EvalsError(f"{place}: the problem has no field {name!r}; found {names}")
        kind, text = type(fields[name]), str(fields[name])  # numbers in the user's examples
        if kind not in (str, int, float):
            fault = f"the field {name!r} is of type {kind.__name__}"
            raise EvalsError(f"{place}: {fault}; expected a text")
        return text.strip() if template.stripped else text

    return _FIELD.sub(value, template.text)


def plain(benchmark: str, max_tokens: int) -> Recipe:
    """Return a recipe whose prompt is a question's field `prompt`. max_tokens: of a response."""
    template = Template("{prompt}", "completion", max_tokens, source="the benchmark")
    return Recipe("plain", "the benchmark's own texts, as they are", {benchmark: template})


_TURN = re.compile(
    r"(?=[\n<\[])(?:(?:\n|</answer>)(?P<turn>(?P<space>[ \t]*)(?:\#{2,6}[ ]?)?"
    r"(?P<who>Q|Question|Problem|Task|Human|User|Assistant)[ \t]*+(?:\d++[ \t]*+)?:)"
    r"|(?P<token><(?:\|(?:im_start|im_end|endoftext|endofmask|eot_id|start_header_id|return|user"
    r"|assistant|system|end(?!\|><\|start\|>assistant<))\|>|(?:start|end)_of_turn>|/s>)|\[INST\]))"
)
"""The marks at which a turn begins or ends, in usual prompts and in chat templates."""


def own_turn(
    response: str,
    template: Template | None,
    answered: Callable[[str], object],
    *,
    code: bool = False,
) -> str:
    """Return a response without thoughts and the turns that the model invents behind its answer.

    A token of a chat template ends it, and so does "User:" at a line's start if the prompt has such
    turns. Any other marker ("Question:", "Problem:", ...) ends it once the text since the last
    marker holds an answer (`answered`), and always if the template `continues`. Markers do not
    count in thoughts and, in code, in fenced blocks and indented lines.
    """
    thought = thought_pattern()
    part = next((part for part in thought.finditer(response) if not part["text"]), None)
    opened = part.end() if part and part["end"] else 0  # the length of what the prompt opened
    text = thought.sub(lambda part: "\0" * len(part[0]) if part["close"] else part[0], response)
    searched = thought.sub(lambda m: "`" * len(m["text"] or "") or m[0], text) if code else text
    start, first = opened, len(response) - len(response.lstrip())
    for match in _TURN.finditer(searched):
        token = match["token"] is not None
        end = match.start("token" if token else "turn")
        if end <= first or (not token and (end < opened or (code and match["space"]))):
            continue
        certain = template is not None and (
            template.continues or (match["who"] == "User" and "User:" in template.text)
        )
        if token or certain or answered(text[start:end]):
            return without_thoughts(response[:end])
        start = end
    return without_thoughts(response)
