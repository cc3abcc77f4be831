"""Operators that are not ours, run so that their faults are named and their children checked."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Slot
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild


def guarded(operator: Operator, origin: str) -> Operator:
    """The same operator, with every fault turned into a `LoraEvoError` that names its origin.

    A child must be a `SlotChild` with factors of the first parent's shapes and numbers that a
    lineage can hold; parameters must be values that JSON can hold.
    """
    who = f"the operator {operator.name} ({origin})"

    def prepare(request: Request) -> Recipe:
        try:
            json.dumps(dict(request.parameters), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise LoraEvoError(
                f"a parameter of {operator.name} cannot be put on record as JSON: {error}"
            ) from error
        with _blaming(f"{who} failed while it was prepared"):
            recipe = operator.prepare(request)

        def run(path: str, slots: Sequence[Slot]) -> SlotChild:
            with _blaming(f"{who} failed at {path}"):
                child = recipe(path, slots)
            problem = _misfit(child, slots)
            if problem:
                raise LoraEvoError(f"{who} made a wrong child of {path}: {problem}")
            return child

        return run

    return replace(operator, prepare=prepare)


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    try:
        yield
    except LoraEvoError:
        raise
    except Exception as error:
        raise LoraEvoError(f"{what}: {type(error).__name__}: {error}") from error


def _misfit(child: object, slots: Sequence[Slot]) -> str:
    """What is wrong with a child, or nothing."""
    if not isinstance(child, SlotChild) or not isinstance(child.slot, Slot):
        return f"it is a {type(child).__name__}; expected a SlotChild that holds a Slot"
    for name in ("A", "B"):
        made, wanted = getattr(child.slot, name), getattr(slots[0], name)
        if not isinstance(made, torch.Tensor) or not made.is_floating_point():
            return f"its {name} is {getattr(made, 'dtype', type(made).__name__)}; expected floats"
        if made.shape != wanted.shape:
            return f"its {name} is {list(made.shape)}; expected {list(wanted.shape)}"
    told = vars(child)
    for name in ("relative_change", "effective_rank", "parent_norm", "truncation_loss"):
        value = told[name]
        if value is None and name == "relative_change":
            continue
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            return f"its {name} is {value!r}; expected a finite number of at least 0"
    if not isinstance(told["rank"], int) or told["rank"] < 0:
        return f"its rank is {told['rank']!r}; expected a whole number of at least 0"
    if told["source"] not in range(len(slots)):
        return f"its source is {told['source']!r}; expected a parent's number from 0"
    if not isinstance(told["moments_valid"], bool):
        return f"its moments_valid is {told['moments_valid']!r}; expected True or False"
    return ""
