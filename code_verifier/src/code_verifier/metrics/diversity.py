"""How much of the space of programs a set covers."""

import ast
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from code_verifier.errors import CodeVerifierError
from code_verifier.metrics.measurement import imported
from code_verifier.program.fingerprint import fingerprint
from code_verifier.program.source import ParsedProgram, parse_program
from code_verifier.program.survey import survey

_POINTS = 200
_OPERATORS = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
TRAITS = ("structure", "node_types", "imports")
"""The fields of Traits, the finest first."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Three descriptions of a program, each finer than a name and coarser than its text."""

    structure: str
    """Its `fingerprint`."""
    node_types: str
    """The types of syntax it uses without operators, sorted: `BinOp For Return`."""
    imports: str
    """The modules it imports, sorted, with spaces between."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that occurs more than once."""

    key: str
    count: int
    example: str
    """The first program that has it."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The variety of a set of programs, each described by one key."""

    programs: int
    """Their number n."""
    distinct: int
    """Different keys."""
    share: float
    """distinct / n."""
    entropy_bits: float
    """H = -sum p log2 p over the shares p of the keys (Shannon 1948), at most log2 n."""
    effective: float
    """2^H, the number of equally common keys with that entropy (Hill 1973, order 1)."""
    new_chance: float
    """Keys seen once / n: about the chance that one more program has a new key (Good 1953)."""
    growth: tuple[tuple[int, int], ...]
    """Pairs (programs so far, distinct keys so far), in order, thinned to about 200."""
    repeated: tuple[Repeated, ...]
    """The most common keys that occur more than once."""


def traits(program: str | ParsedProgram) -> Traits:
    """The traits of a program. Raises ProgramError when it cannot be parsed."""
    parsed = parse_program(program)
    found = survey(parsed.tree)
    kinds = sorted(kind.__name__ for kind in found.by_type if not issubclass(kind, _OPERATORS))
    return Traits(fingerprint(parsed), " ".join(kinds), " ".join(sorted(set(imported(found)))))


def coverage(programs: Iterable[str], by: str = "structure", top: int = 10) -> Coverage:
    """The coverage of programs by one of TRAITS: `structure`, `node_types` or `imports`. Raises
    ProgramError for a program that cannot be parsed, CodeVerifierError for another trait."""
    if by not in TRAITS:
        raise CodeVerifierError(f"unknown trait {by!r}; expected one of {', '.join(TRAITS)}")
    texts = list(programs)
    return coverage_of([getattr(traits(text), by) for text in texts], texts, top)


def coverage_of(keys: Sequence[str], examples: Sequence[str] = (), top: int = 10) -> Coverage:
    """The coverage of programs whose keys are known. examples: their texts, in the same order."""
    counts = Counter(keys)
    number = len(keys)
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: max(0, top)]
    first: dict[str, str] = {}
    for key, text in zip(keys, examples, strict=False):
        first.setdefault(key, text)
    entropy = entropy_bits(counts.values())
    return Coverage(
        programs=number,
        distinct=len(counts),
        share=len(counts) / number if number else 0.0,
        entropy_bits=entropy,
        effective=2.0**entropy if number else 0.0,
        new_chance=sum(count == 1 for count in counts.values()) / number if number else 0.0,
        growth=_growth(keys),
        repeated=tuple(Repeated(key, n, first.get(key, "")) for key, n in common if n > 1),
    )


def entropy_bits(counts: Iterable[int]) -> float:
    """Shannon's entropy of a distribution given by counts, in bits; 0 when empty."""
    found = [count for count in counts if count > 0]
    total = sum(found)
    return math.fsum(count / total * math.log2(total / count) for count in found)


def rarefied(counts: Iterable[int], size: int) -> float:
    """Distinct keys expected among `size` programs drawn from the set (Hurlbert 1971).

    sum over keys of 1 - C(n - k, size) / C(n, size), with n programs and k of the key. It makes
    sets of different sizes comparable. Raises CodeVerifierError when size is not in 0..n.
    """
    found = list(counts)
    total = sum(found)
    if not 0 <= size <= total:
        raise CodeVerifierError(f"cannot draw {size} from {total} programs")
    every = _log_choose(total, size)
    return math.fsum(
        1.0 - math.exp(_log_choose(total - count, size) - every) if total - count >= size else 1.0
        for count in found
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _growth(keys: Sequence[str]) -> tuple[tuple[int, int], ...]:
    every = max(1, math.ceil(len(keys) / _POINTS))
    seen: set[str] = set()
    points: list[tuple[int, int]] = []
    for number, key in enumerate(keys, 1):
        seen.add(key)
        if number % every == 0 or number in (1, len(keys)):
            points.append((number, len(seen)))
    return tuple(points)
