"""The hand-written curriculum: what the best teacher might write, whatever a teacher writes."""

from collections.abc import Sequence
from hashlib import blake2b
from random import Random

from studies.collapse.niches import DEPTHS, DIGITS, FAMILIES, OPERATORS, Niches, program_of

from code_verifier import Proposal, Task


class Even(Niches):
    """The world of niches with all families and depths as often, and no trap, in every proposal.

    A text that can be read stands for a program drawn by it and by the reference that was shown.
    """

    def parse_proposal(self, references: Sequence[Task], text: str) -> Proposal | None:
        """Read a text as ever; return what the curriculum has in its place."""
        if super().parse_proposal(references, text) is None:
            return None
        content = f"{text}\n{references[0].program}\n{references[0].input}"
        rng = Random(blake2b(content.encode("utf-8", "replace"), digest_size=8).digest())
        family, depth = rng.choice(FAMILIES), rng.choice(DEPTHS)
        operators = tuple(f"{family}{rng.randrange(OPERATORS)}" for _ in range(depth))
        return Proposal(self.name, program_of(operators), str(rng.randrange(DIGITS)))


EVEN = Even(trap=0)
