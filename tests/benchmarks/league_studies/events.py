"""A made-up world as the log of a league, for whatever reads logs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from league_studies.world import Round, World

from league.state.records import Outcome


def world_events(world: World, rounds: Sequence[Round], which: int) -> list[dict[str, Any]]:
    """Return the events of one of the worlds, from its founding to its last result."""
    names = {letter: [f"{letter}{i}" for i in range(world.members)] for letter in "ts"}
    events: list[dict[str, Any]] = [
        {"event": "league_founded", "teachers": names["t"], "students": names["s"]}
    ]
    for turn in rounds:
        met = [
            (names["t"][i], names["s"][j], turn.solved[which, i])
            for i, j in enumerate(turn.partner[which].tolist())
        ]
        ids = [f"{turn.number}/{teacher}/{student}" for teacher, student, _ in met]
        pairs = [
            {"id": pair_id, "teacher": teacher, "student": student, "predicted": 0.5}
            for pair_id, (teacher, student, _) in zip(ids, met, strict=True)
        ]
        events.append({"event": "round_paired", "round": turn.number, "pairs": pairs})
        for pair_id, (_, _, solved) in zip(ids, met, strict=True):
            outcome = Outcome(
                tasks=world.tasks,
                valid=world.tasks,
                attempts=world.tasks * world.rollouts,
                solved=int(solved.sum()),
                unsolved=int((solved == 0).sum()),
            )
            events.append({"event": "match_recorded", "pair": pair_id, "outcome": asdict(outcome)})
    return events
