"""Operators that are not ours, run so that their faults are named and their children checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from lora_evo.adapter import Slot
from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild


def guarded(operator: Operator, origin: str) -> Operator:
    """The same operator, with every fault turned into a `LoraEvoError` that names its origin.

    A child's slot must be a `SlotChild` whose factors have the first parent's shapes.
    """

    def prepare(request: Request) -> Recipe:
        try:
            recipe = operator.prepare(request)
        except LoraEvoError:
            raise
        except Exception as error:
            raise LoraEvoError(_fault(operator, origin, "while it was prepared", error)) from error

        def run(path: str, slots: Sequence[Slot]) -> SlotChild:
            try:
                child = recipe(path, slots)
            except LoraEvoError:
                raise
            except Exception as error:
                raise LoraEvoError(_fault(operator, origin, f"at {path}", error)) from error
            problem = _misfit(child, slots[0])
            if problem:
                raise LoraEvoError(
                    f"the operator {operator.name} ({origin}) made a wrong child of {path}: "
                    f"{problem}"
                )
            return child

        return run

    return replace(operator, prepare=prepare)


def _fault(operator: Operator, origin: str, where: str, error: Exception) -> str:
    return (
        f"the operator {operator.name} ({origin}) failed {where}: {type(error).__name__}: {error}"
    )


def _misfit(child: object, parent: Slot) -> str:
    """What is wrong with a child, or nothing."""
    if not isinstance(child, SlotChild) or not isinstance(child.slot, Slot):
        return f"it is a {type(child).__name__}; expected a SlotChild that holds a Slot"
    for name in ("A", "B"):
        made, wanted = getattr(child.slot, name), getattr(parent, name)
        if not isinstance(made, torch.Tensor):
            return f"its {name} is a {type(made).__name__}; expected a tensor"
        if made.shape != wanted.shape:
            return f"its {name} is {list(made.shape)}; expected {list(wanted.shape)}"
    return ""
