"""What to do when a GPU's memory does not suffice for a micro-batch."""

import warnings
from collections.abc import Sequence

from selfplay.errors import SelfplayError
from selfplay.learning.batch import Row, micro_batches


def smaller_budget(rows: Sequence[Row], tokens: int, members: int = 0) -> int:
    """Return half the tokens of the largest micro-batch, and warn.

    tokens and members are those of `micro_batches`. Raises SelfplayError when every batch is a
    single row already.
    """
    batches = list(micro_batches(rows, tokens, members))
    if all(len(batch) == 1 for batch in batches):
        longest = max(row.length for row in rows)
        raise SelfplayError(
            f"out of memory: a single row of {longest} tokens does not fit; "
            "set learner.gradient_checkpointing=true, or smaller rollout.max_completion_length"
        )
    largest = max(len(batch) * max(row.length for row in batch) for batch in batches)
    smaller = min(tokens, largest) // 2
    warnings.warn(
        f"out of memory in an update: done again with learner.micro_batch_tokens={smaller}",
        stacklevel=2,
    )
    return smaller
