"""How benchmarks are asked: everything that decides what a model sees and how it samples; and where
its response ends.

`azr`, `azr-boxed`: Absolute Zero's prompts and settings, which PopuLoRA's tables follow
(LeapLabTHU/Absolute-Zero-Reasoner at a82124e: evaluation/code_eval, evaluation/math_eval). One
greedy sample a problem. Its evalplus script does not pass the `azr` prompt of its evalplus copy, so
HumanEval+ and MBPP+ are asked as evalplus does. GSM8K is PopuLoRA's addition, asked as the other
math benchmarks.

`evalplus`, `evalplus-completion`: evalplus 0.3.1 (codegen.py, provider/utility.py).

`chat`: the usual prompts for chat models; CRUXEval (facebookresearch/cruxeval at 190faf1) is asked
in other words, step by step, as by `azr`. The math sentence is that of Qwen2.5-Math's
`qwen25-math-cot` prompt, put behind the question; the one for functions is evalplus' without the
answer that evalplus begins, so that a model may think. LiveCodeBench is asked in its own words
(28fef95, lcb_runner/prompts/code_generation.py); its scripts' stop text `###` is left out, as it
cuts answers that have headings.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from evals.errors import EvalsError, first_line

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


_STOP = ("<|endoftext|>", "<|endofmask|>", "</s>", "\nif __name__", "\ndef main(", "\nprint(")

_EVALPLUS_CHAT = Template(
    text=(
        "Please provide a self-contained Python script that solves the following problem in a "
        "markdown code block:\n```\n{prompt}\n```\n"
    ),
    mode="chat",
    max_tokens=768,
    source="evalplus 0.3.1",
    stop=(*_STOP, "\n```\n"),
    response_prefix=(
        "Below is a Python script with a self-contained function that solves the problem and "
        "passes corresponding tests:\n```python\n"
    ),
    stripped=True,
    tabs=4,
)


def _completion(*stop: str) -> Template:
    return replace(
        _EVALPLUS_CHAT,
        text="{prompt}\n",
        mode="completion",
        stop=(*_STOP, *stop),
        response_prefix="",
        continues=True,
    )


_STARTER = (
    "You will use the following starter code to write the solution to the problem and enclose "
    "your code within delimiters.\n```python\n{starter_code}\n```\n\n"
)
_NO_STARTER = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly "
    "test on the sample inputs). Enclose your code within delimiters as follows. Ensure that when "
    "the python program runs, it reads the inputs, runs the algorithm and writes output to STDOUT."
    "\n```python\n# YOUR CODE HERE\n```\n\n"
)

_CHAT_LIVECODEBENCH = Template(
    text=(
        "### Question:\n{question}\n\n### Format: {format}"
        "### Answer: (use the provided format with backticks)\n\n"
    ),
    mode="chat",
    max_tokens=4096,
    source="LiveCodeBench 28fef95, generic",
    system=(
        "You are an expert Python programmer. You will be given a question (problem "
        "specification) and will generate a correct Python program that matches the "
        "specification and passes all tests."
    ),
    starter=_STARTER,
    no_starter=_NO_STARTER,
)

_AZR = "Absolute-Zero-Reasoner a82124e"
_PREAMBLE = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant "
    "solves it. The assistant first thinks about the reasoning process in the mind and then "
    "provides the user with the answer. The reasoning process and answer are enclosed within "
    "<think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning process "
    "here </think> <answer> answer here </answer>. "
)
_BOXED = "And your final answer will be extracted automatically by the \\boxed{} tag. "

_AZR_LIVECODEBENCH = Template(
    text=(
        _PREAMBLE + "User: \n# Task: You will be given a question (problem specification) and "
        "will generate a correct Python program that matches the specification and passes all "
        "tests. Your final answer should be wrapped in ```python``` tags.\n\n"
        "Question: {question}\n\n{format}Assistant: <think>"
    ),
    mode="completion",
    max_tokens=8096,
    source=_AZR,
    starter=_STARTER,
    no_starter=_NO_STARTER,
)


_CRUXEVAL = "CRUXEval 190faf1, in other words"
_OUTPUT_TASK = (
    "Replace ?? by the value that the call returns, as a literal: nothing to compute may be left "
    "in it. The code counts as it is, even where it looks wrong."
)
_INPUT_TASK = (
    "Replace ?? by arguments for which the call returns the value on the right. Where several "
    "would do, choose one."
)
_OUTPUT_ASKED, _INPUT_ASKED = "assert f({input}) == ??", "assert f(??) == {output}"
_TAGGED = "Write the whole assertion between [ANSWER] and [/ANSWER]"


def _one_turn(task: str, assertion: str, form: str) -> str:
    """A problem without examples."""
    program = f"```python\n{{code}}\n{assertion}\n```"
    return f"Here are a function and an assertion.\n{program}\n{task} {form}"


def _azr_assertion(task: str, assertion: str) -> Template:
    form = "Your final answer should be the whole assertion."
    text = f"{_PREAMBLE}User: {_one_turn(task, assertion, form)}\nAssistant: <think>"
    return Template(text, "completion", 8096, f"{_AZR}, the turns; {_CRUXEVAL}")


def _azr_recipe(name: str, description: str, math_preamble: str) -> Recipe:
    math = Template(
        text=math_preamble + "User: {question}\nAssistant:",
        mode="completion",
        max_tokens=16000,
        source=_AZR,
        stop=("</s>", "<|im_end|>", "<|endoftext|>"),
        stripped=True,
    )
    limits = Limits(min_time_s=10.0, time_factor=8.0)
    return Recipe(
        name=name,
        description=description,
        templates={
            "humaneval_plus": _EVALPLUS_CHAT,
            "mbpp_plus": _EVALPLUS_CHAT,
            "livecodebench": _AZR_LIVECODEBENCH,
            "cruxeval_o": _azr_assertion(_OUTPUT_TASK, _OUTPUT_ASKED),
            "cruxeval_i": _azr_assertion(_INPUT_TASK, _INPUT_ASKED),
            **dict.fromkeys(MATH, math),
        },
        grading={
            "humaneval_plus": limits,
            "mbpp_plus": limits,
            "livecodebench": Limits(timeout_s=60.0, program="azr"),
        },
    )


_CHAT_FUNCTION = replace(
    _EVALPLUS_CHAT, response_prefix="", stop=(), max_tokens=4096, source="evalplus 0.3.1, not begun"
)
_CHAT_MATH = Template(
    text="{question}\nPlease reason step by step, and put your final answer within \\boxed{}.",
    mode="chat",
    max_tokens=4096,
    source="Qwen2.5-Math a45202b",
    stripped=True,
)


def _chat_assertion(task: str, assertion: str) -> Template:
    text = _one_turn(task, assertion, f"Think step by step. {_TAGGED}.")
    return Template(text, "chat", 4096, _CRUXEVAL)


CHAT = Recipe(
    name="chat",
    description="chat turns: programs in a code fence, math answers in a box",
    templates={
        "humaneval_plus": _CHAT_FUNCTION,
        "mbpp_plus": _CHAT_FUNCTION,
        "livecodebench": _CHAT_LIVECODEBENCH,
        "cruxeval_o": _chat_assertion(_OUTPUT_TASK, _OUTPUT_ASKED),
        "cruxeval_i": _chat_assertion(_INPUT_TASK, _INPUT_ASKED),
        **dict.fromkeys(MATH, _CHAT_MATH),
    },
)

_ALL = (
    _azr_recipe("azr", "Absolute Zero and PopuLoRA: think and answer tags, greedy", _PREAMBLE),
    _azr_recipe(
        "azr-boxed",
        "the same with a boxed answer in math, Absolute Zero's choice for Coder-7B",
        _PREAMBLE + _BOXED,
    ),
    Recipe(
        name="evalplus",
        description="evalplus' chat prompt, the answer begun for the model",
        templates={"humaneval_plus": _EVALPLUS_CHAT, "mbpp_plus": _EVALPLUS_CHAT},
    ),
    Recipe(
        name="evalplus-completion",
        description="evalplus' direct completion (--force-base-prompt)",
        templates={
            "humaneval_plus": _completion(
                "\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert "
            ),
            "mbpp_plus": _completion('\n"""', "\nassert"),
        },
    ),
    CHAT,
)
RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in _ALL}

_FIELD = re.compile(r"\{(\w+)\}")
_HERE = "\x02the response goes on here\x03"


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
    try:
        whole = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=not prefix, **more
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
