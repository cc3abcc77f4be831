"""The operator that a name or an object stands for."""

import difflib
from collections.abc import Mapping
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.operator import Operator
from lora_evo.operators.plugins import known_operators, plugin


def find_operator(wanted: str | Operator, kind: str) -> Operator:
    """The operator of this name, or this very object, which must be of the kind asked for."""
    found = _checked_object(wanted) if isinstance(wanted, Operator) else operator_named(wanted)
    if found.kind != kind:
        verb = "mutate" if found.kind == "mutation" else "cross"
        raise LoraEvoError(f"{found.name} is a {found.kind}, not a {kind}; use `{verb}`")
    return found


def operator_named(name: str) -> Operator:
    """The built-in operator called `name`, else the plug-in's; raises `LoraEvoError`."""
    if not isinstance(name, str):
        raise LoraEvoError(
            f"the operator is given as a {type(name).__name__}; expected its name or an Operator"
        )
    if name in OPERATORS:
        return OPERATORS[name]
    offered = plugin(name)
    if offered is not None:
        return offered.usable()
    known = known_operators()
    raise LoraEvoError(
        f"there is no operator {name!r}{_suggestion(name, known)}; known: {', '.join(known)}"
    )


def recorded_operator(name: str, distribution: str | None, versions: Mapping[str, str]) -> Operator:
    """The operator that a lineage names; says which plug-in to install where it is not here."""
    if name not in OPERATORS and plugin(name) is None:
        if distribution is not None:
            wanted = f"{distribution} {versions.get(distribution, '')}".strip()
            raise LoraEvoError(
                f"its operator {name!r} comes with the plug-in {wanted}, which is not installed "
                "here; install that distribution first"
            )
        raise LoraEvoError(
            f"its operator {name!r} is not known here: it was given as an object, or by a newer "
            "version; only built-in operators and installed plug-ins can be run again"
        )
    return operator_named(name)


def check_names(operator: Operator, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that the operator does not have."""
    for name in parameters:
        if name not in operator.defaults and name != "gauge":
            known = ", ".join(operator.defaults) or "none"
            raise LoraEvoError(
                f"{operator.name} has no parameter {name!r}"
                f"{_suggestion(name, operator.defaults)}; it has: {known}"
            )


def _checked_object(operator: Operator) -> Operator:
    """Refuse an object under the name of another operator: its lineage would lie."""
    if operator.name in OPERATORS and OPERATORS[operator.name] is not operator:
        raise LoraEvoError(
            f"the operator given is called {operator.name!r} like a built-in one, but is another; "
            "give it a name of its own"
        )
    offered = plugin(operator.name)
    if offered is not None and offered.operator is not operator:
        raise LoraEvoError(
            f"the operator given is called {operator.name!r} like one of the plug-in "
            f"{offered.distribution}, but is another; give it a name of its own"
        )
    return operator


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
