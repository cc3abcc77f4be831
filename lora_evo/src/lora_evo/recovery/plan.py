"""Which children are tried: treatments of parents, with their controls, in cohorts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from lora_evo.errors import LoraEvoError, is_number
from lora_evo.operators.lookup import check_names, operator_named

CONTINUED, RESET = "continued", "reset"
"""The controls: the parent trained on as it is, and a fresh adapter in its place."""
GIVEN = "given"
"""A child that was made elsewhere and is only trained."""


@dataclass(frozen=True)
class Treatment:
    """An operator with its settings, as tried; it need not be installed to be read about."""

    operator: str
    strength: float | None = None
    """None: the operator's default."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The operator with what differs from its defaults: `svd_structured strength=0.3`."""
        said = {} if self.strength is None else {"strength": self.strength}
        settings = [f"{key}={_word(value)}" for key, value in (said | {**self.parameters}).items()]
        return " ".join((self.operator, *settings))

    @property
    def parents(self) -> int:
        """How many parents it takes: 1 or 2."""
        if self.operator in (CONTINUED, RESET):
            return 1
        return 2 if operator_named(self.operator).kind == "crossover" else 1

    def check(self) -> None:
        """Refuse an operator or a parameter that there is not here."""
        if self.operator not in (CONTINUED, RESET):
            check_names(operator_named(self.operator), self.parameters)


def read_treatment(text: str) -> Treatment:
    """A treatment from its name: `dare p=0.5` or `svd_structured strength=0.3`."""
    operator, *words = text.split()
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise LoraEvoError(f"{text!r}: expected OPERATOR NAME=VALUE..., found {word!r}")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    strength = values.pop("strength", None)
    if strength is not None and not is_number(strength):
        raise LoraEvoError(f"{text!r}: strength is {strength!r}, expected a number")
    found = Treatment(operator, strength, values)
    found.check()
    return found


@dataclass(frozen=True)
class ParentPair:
    """Two parents to cross, the child in the first one's place."""

    first: str
    second: str
    relation: str
    """`sibling`, `far`, or any other word for how they are related."""


@dataclass(frozen=True)
class Trial:
    """One child to be made, trained and watched."""

    treatment: Treatment
    parents: tuple[str, ...]
    relation: str
    """That of the pair; empty for one parent."""
    seed: int

    @property
    def key(self) -> str:
        """What tells it from all others of an experiment."""
        return json.dumps([self.treatment.name, list(self.parents), self.relation, self.seed])

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Back from the journal."""
        return cls(
            Treatment(**row["treatment"]), tuple(row["parents"]), row["relation"], row["seed"]
        )


@dataclass(frozen=True)
class TrialPlan:
    """All of an experiment: each treatment on each parent or pair, with each seed."""

    parents: tuple[str, ...]
    """Names of the parents that mutations and controls start from."""
    pairs: tuple[ParentPair, ...]
    treatments: tuple[Treatment, ...]
    seeds: tuple[int, ...]
    together: int = 32
    """Children trained side by side at most."""
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of children made elsewhere, each with the names of its parents, the first one first."""

    def __post_init__(self) -> None:
        for treatment in self.treatments:
            treatment.check()
        names = [treatment.name for treatment in self.treatments]
        if not (names or self.given) or len(set(names)) < len(names):
            raise LoraEvoError(f"treatments are {names}; expected one or more different ones")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or self.together < 1:
            raise LoraEvoError(
                f"seeds are {self.seeds}, {self.together} together; expected different seeds, and "
                "at least 1 together"
            )

    def cohorts(self, done: Sequence[str] = ()) -> Iterator[list[Trial]]:
        """Trials not yet done that share the first parent and the seed, controls first."""
        finished = set(done)
        firsts = [pair.first for pair in self.pairs] + [names[0] for names in self.given.values()]
        heads = dict.fromkeys((*self.parents, *firsts))
        for seed in self.seeds:
            for head in heads:
                open_ = [t for t in self._of(head, seed) if t.key not in finished]
                for start in range(0, len(open_), self.together):
                    yield open_[start : start + self.together]

    def _of(self, head: str, seed: int) -> Iterator[Trial]:
        for control in (CONTINUED, RESET):
            yield Trial(Treatment(control), (head,), "", seed)
        for child, parents in self.given.items():
            if parents[0] == head:
                known = Treatment(GIVEN, parameters={"child": child})
                yield Trial(known, parents, GIVEN if len(parents) > 1 else "", seed)
        for treatment in self.treatments:
            if treatment.parents == 1 and head in self.parents:
                yield Trial(treatment, (head,), "", seed)
            for pair in self.pairs:
                if treatment.parents == 2 and pair.first == head:
                    yield Trial(treatment, (head, pair.second), pair.relation, seed)


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
