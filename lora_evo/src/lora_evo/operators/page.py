"""What there is to read about the operators: a list of all, and a page for each."""

import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.lookup import operator_named
from lora_evo.operators.operator import Operator
from lora_evo.operators.plugins import Plugin, plugin_behind, plugins
from lora_evo.text_table import text_table


@dataclass(frozen=True)
class OperatorPage:
    """An operator, and where it comes from."""

    name: str
    operator: Operator | None
    """None for a plug-in that cannot be used."""
    plugin: Plugin | None
    """None for a built-in operator."""

    @property
    def origin(self) -> str:
        """`built-in`, or the distribution with its version."""
        return f"{self.plugin.distribution} {self.plugin.version}" if self.plugin else "built-in"

    @property
    def description(self) -> str:
        """Formula, source, gauge: the docstring of the module that the operator is written in."""
        module = inspect.getmodule(self.operator.prepare) if self.operator else None
        return inspect.cleandoc(module.__doc__ or "") if module else ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, without the description."""
        plugin, known = self.plugin, self.operator
        fields = ("kind", "summary", "preserves", "moments")
        return {
            "name": self.name,
            **{field: getattr(known, field, None) for field in fields},
            "strength": known.default_strength if known else None,
            "parameters": dict(known.defaults) if known else {},
            "origin": plugin and {"distribution": plugin.distribution, "version": plugin.version},
            "problem": plugin and plugin.problem,
        }

    def text(self) -> str:
        """The whole page."""
        if self.operator is None:
            return _problem(self)
        known = self.operator
        verb = "mutate" if known.kind == "mutation" else "cross"
        strength = "none"
        if known.default_strength is not None:
            strength = f"--strength {known.default_strength:g}, relative change of the update"
        settings = [f"--set {name}={_word(value)}" for name, value in known.defaults.items()]
        return f"""{known.name}: {known.summary}

{self.description}

kind        {known.kind} (lora-evo {verb} {known.name} ...)
preserves   {known.preserves}
moments     {known.moments or "not said"} (of the optimiser)
strength    {strength}
parameters  {" ".join(settings) or "none"}
from        {self.origin}"""


def operator_page(name: str) -> OperatorPage:
    """The page of one operator; raises `LoraEvoError` for an unknown or unusable one."""
    operator = operator_named(name)
    return OperatorPage(name, operator, plugin_behind(operator))


def operator_pages() -> list[OperatorPage]:
    """Pages of the built-in operators, then of all plug-in ones by name, usable or not."""
    own = [OperatorPage(name, operator, None) for name, operator in OPERATORS.items()]
    return own + [OperatorPage(known.name, known.operator, known) for known in plugins()]


def table(pages: Iterable[OperatorPage]) -> str:
    """All usable operators, one line each, with what is wrong with the others below."""
    header = ("name", "kind", "strength", "parameters", "from", "what it does")
    rows, problems = [], []
    for page in pages:
        known = page.operator
        if known is None:
            problems.append(_problem(page))
            continue
        strength = "-" if known.default_strength is None else f"{known.default_strength:g}"
        given = " ".join(
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={_word(value)}"
            for name, value in known.defaults.items()
        )
        rows.append((known.name, known.kind, strength, given or "-", page.origin, known.summary))
    return "\n".join([text_table(header, rows, left=len(header)), *problems])


def _problem(page: OperatorPage) -> str:
    reason = page.plugin.problem if page.plugin else None
    return f"{page.name} ({page.origin}) cannot be used: {reason}"


def _word(value: object) -> str:
    """A value as `--set` takes it: text stays bare where it would not read as JSON."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value)
