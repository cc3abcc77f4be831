"""Supervised examples of both roles: what a proposer and a solver would write for known tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.engine.streams import derive_seed, stream
from selfplay.errors import SelfplayError
from selfplay.prompts.template import Template
from selfplay.warmup.supervised_step import TokenPair, token_pair
from selfplay.warmup.task_rows import WorkedTask


@dataclass(frozen=True)
class Examples:
    """Pairs to learn from, and pairs of other programs that are only measured."""

    training: tuple[TokenPair, ...]
    held_out: tuple[TokenPair, ...]
    too_long: int
    """Left out: longer than the limit."""
    unspoken: int
    """Left out: the template cannot say them."""


def make_examples(
    tasks: Sequence[WorkedTask],
    template: Template,
    tokenizer: Any,
    *,
    num_references: int,
    held_out: int,
    max_length: int,
    seed: int,
) -> Examples:
    """Write each task in both roles, and set the tasks of some programs apart.

    held_out: programs; max_length: tokens of prompt and completion. Which programs, and which
    references a proposer is shown, follow from the seed. Raises SelfplayError when nothing is left.
    """
    programs = list(dict.fromkeys(worked.task.program for worked in tasks))
    if len(programs) <= held_out:
        raise SelfplayError(
            f"the file has {len(programs)} programs that hold, and {held_out} are held out; "
            "expected more, so that some are left to learn from"
        )
    order = stream(derive_seed(seed, "held-out")).permutation(len(programs))
    apart = {programs[int(i)] for i in order[:held_out]}
    shown = [w for w in tasks if w.task.program not in apart and w.task.kind != "code_f"]
    pairs: dict[bool, list[TokenPair]] = {True: [], False: []}
    too_long = unspoken = 0
    for number, worked in enumerate(tasks):
        key = derive_seed(seed, "references", number)
        for written in _both_roles(worked, shown, template, num_references, key):
            if written is None:
                unspoken += 1
                continue
            pair = token_pair(tokenizer, written[0], written[1] + tokenizer.eos_token)
            if pair.length > max_length:
                too_long += 1
            else:
                pairs[worked.task.program in apart].append(pair)
    if not pairs[False] or (held_out and not pairs[True]):
        raise SelfplayError(
            f"{too_long} examples are longer than {max_length} tokens and {unspoken} cannot be "
            "said in the template; none are left: give a larger --max-length"
        )
    return Examples(tuple(pairs[False]), tuple(pairs[True]), too_long, unspoken)


def _both_roles(
    worked: WorkedTask, shown: Sequence[WorkedTask], template: Template, count: int, seed: int
) -> list[tuple[str, str] | None]:
    """Prompt and completion as a proposer and as a solver; None where the template cannot say it.

    What it can say, it reads back: a solution that is empty, or a proposal with another number of
    inputs than it asks for, would be an example of ill-formed text.
    """
    task = worked.task
    written: list[tuple[str, str] | None] = []
    others = [w.task for w in shown if w.task.program != task.program]
    if task.kind == "code_f":
        references = [task]
    else:
        rng = stream(seed)
        picked = rng.choice(len(others), min(count, len(others)), replace=False) if others else ()
        references = [others[int(i)] for i in picked]
    proposal = template.proposal_text(task, worked.thought)
    if references and template.parse_proposal(task.kind, references, proposal) is not None:
        written.append((template.propose_prompt(task.kind, references), proposal))
    else:
        written.append(None)
    answer = template.answer_text(task, worked.thought)
    if template.parse_answer(task, answer) is not None:
        written.append((template.solve_prompt(task), answer))
    else:
        written.append(None)
    return written
