"""The operators, by name: one table, which loads no torch until an operator is used."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Operator


def _built_in(
    kind: Literal["mutation", "crossover"],
    name: str,
    module: str,
    summary: str,
    preserves: str,
    strength: float | None = None,
    moments: str = "reset",
    **defaults: Any,
) -> Operator:
    prepare = f"lora_evo.operators.{module}:{name}"
    return Operator(name, kind, summary, preserves, prepare, defaults, strength, moments)


OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        _built_in(
            "mutation", "svd_structured", "spectral",
            "turn both singular bases by exact rotations, rescale the singular values",
            "column and row space, rank, factorization, norm balance of A and B",
            strength=0.15, rotation=1.0,
        ),
        _built_in(
            "mutation", "subspace_rotation", "spectral",
            "turn both singular bases within their spaces by exact rotations",
            "singular values, column and row space, factorization, norm balance",
            strength=0.15,
        ),
        _built_in(
            "mutation", "component_masking", "spectral",
            "mask random singular components, mostly small ones, and start them afresh",
            "the other components, |A|, number of live ranks; not the factorization",
            strength=0.15, tail=1.0,
        ),
        _built_in(
            "mutation", "full_gaussian", "factor_noise",
            "add Gaussian noise, in proportion to each factor's size, to both factors",
            "rank, relative sizes of A and B; depends on the factorization",
            strength=0.15,
        ),
        _built_in(
            "mutation", "layer_selective_gaussian", "factor_noise",
            "add Gaussian noise to both factors of a random share of the modules",
            "all other modules exactly; as full_gaussian on the chosen ones",
            strength=0.15, moments="reset on the chosen modules",
            share=1 / 3, level="module",
        ),
        _built_in(
            "mutation", "neftune", "factor_noise",
            "add uniform noise, in proportion to its size, to A alone",
            "B, column space of every update, rank; depends on the factorization",
            strength=0.1,
        ),
        _built_in(
            "crossover", "slot_swap", "slot_swap",
            "take the factors of every module (or layer) whole from one of the parents",
            "every slot, rank, optimiser moments (they move with the slot)",
            moments="valid",
            level="module",
        ),
        _built_in(
            "crossover", "svd_subspace", "crossovers",
            "take every singular triplet of the update from one of the parents",
            "singular triplets of the parents (before truncation), rank",
        ),
        _built_in(
            "crossover", "dare", "crossovers",
            "the first parent plus some components of its difference to the others",
            "what the parents agree on, rank, the mean (over seeds)",
            p=0.3,
        ),
        _built_in(
            "crossover", "extrapolate", "crossovers",
            "from the worse parent's update through the better one's and beyond",
            "what the parents agree on, rank",
            fitness=None, eta=None, eta_low=1.1, eta_high=1.3,
        ),
        _built_in(
            "crossover", "average", "crossovers",
            "the weighted mean of the updates, truncated to the first parent's rank",
            "what the parents agree on, rank",
        ),
        _built_in(
            "crossover", "xes", "crossovers",
            "the mean of the parents' updates, moved along the direction of fitness",
            "what the parents agree on, rank",
            fitness=None, eta=0.5,
        ),
        _built_in(
            "crossover", "factor_average", "factorwise",
            "baseline: A and B averaged apart (cross terms); prefer average",
            "rank, equal factors",
        ),
        _built_in(
            "crossover", "factor_dare", "factorwise",
            "baseline: entries of A and B dropped and rescaled apart; prefer dare",
            "rank",
            p=0.7,
        ),
        _built_in(
            "crossover", "factor_extrapolate", "factorwise",
            "baseline: A and B extrapolated apart (quadratic); prefer extrapolate",
            "rank, equal factors",
            fitness=None, eta=None, eta_low=1.0, eta_high=1.5,
        ),
        _built_in(
            "crossover", "factor_xes", "factorwise",
            "baseline: mean and fitness direction of A and of B apart; prefer xes",
            "rank, equal factors",
            fitness=None, eta=1.0,
        ),
    )
}  # fmt: skip


def find_operator(wanted: str | Operator, kind: str | None = None) -> Operator:
    """Return the operator of this name, or this object; refuse one of another kind than `kind`."""
    name = wanted.name if isinstance(wanted, Operator) else wanted
    found = OPERATORS.get(name) if isinstance(wanted, str) else wanted
    if found is None:
        known = ", ".join(OPERATORS)
        raise LoraEvoError(
            f"there is no operator {name!r}{did_you_mean(name, OPERATORS)}; known: {known}"
        )
    if OPERATORS.get(name, found) is not found:
        raise LoraEvoError(
            f"the operator given is called {name!r} like a built-in one; give it a name of its own"
        )
    if kind not in (None, found.kind):
        verb = "mutate" if found.kind == "mutation" else "cross"
        raise LoraEvoError(f"{name} is a {found.kind}, not a {kind}; use `{verb}`")
    return found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the closest known name, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
