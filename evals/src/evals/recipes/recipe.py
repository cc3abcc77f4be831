"""How a benchmark is asked: everything that decides what the model sees and how it samples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from evals.errors import EvalsError

Mode = Literal["chat", "completion"]
"""chat: the tokenizer's chat template makes the turns; completion: the text is the prompt.

It is never guessed from the tokenizer: Qwen2.5's base models ship a chat template, too.
"""


@dataclass(frozen=True)
class Template:
    """The prompt of one benchmark.

    text: with {fields} of the problem in it; other braces stay. stripped: fields lose white space
    at both ends. system: a system turn (chat only). response_prefix: what the answer begins with,
    written for the model. starter, no_starter: what {format} becomes for a problem with and
    without starter code. stop: texts that end a response and do not belong to it. continues: the
    solution is the prompt followed by the response. tabs: spaces that replace a tab in the
    response; None leaves them. max_tokens: of the response. source: where it was published.
    """

    text: str
    mode: Mode
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
class Recipe:
    """A protocol by name: templates by benchmark, sampling, and the judging that went with it.

    temperature 0 is greedy. judging: benchmark -> settings of its published scripts (seconds,
    factors, how a program is found) that a comparable run needs.
    """

    name: str
    description: str
    templates: Mapping[str, Template]
    temperature: float = 0.0
    n: int = 1
    judging: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)

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
        return {
            "recipe": self.name,
            "template": template | {"stop": list(template["stop"])},
            "judging": dict(self.judging.get(benchmark, {})),
        }
