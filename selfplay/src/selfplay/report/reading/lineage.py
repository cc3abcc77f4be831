"""Who lived when, and came from whom."""

from dataclasses import dataclass, replace

from selfplay.report.reading.run_data import Birth, Run


@dataclass(frozen=True, slots=True)
class Life:
    """A member from its birth (step 0 for founders) to the step at which it was replaced."""

    name: str
    role: str
    lane: int
    born: int
    died: int | None = None
    birth: Birth | None = None


def lives(run: Run) -> list[Life]:
    """Return all members of a run, founders first, then children in the order of their births."""
    roles = {name: m.role for step in reversed(run.steps) for name, m in step.members.items()}
    children = {birth.child for birth in run.births}
    founders = [name for name in roles if name not in children]
    founders.sort(key=lambda name: (-ord((roles[name] or " ")[0]), _natural(name)))
    found = {name: Life(name, roles[name], lane, 0) for lane, name in enumerate(founders)}
    lanes = len(found)
    for birth in run.births:
        place = found.get(birth.removed)
        if place is None:
            role = roles.get(birth.child, "member")
            place = Life(birth.removed, role, lanes, 0)
            lanes += 1
        found[birth.removed] = replace(place, died=birth.step)
        found[birth.child] = Life(birth.child, place.role, place.lane, birth.step, None, birth)
    return list(found.values())


def _natural(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return (head, int(digits[:9] or 0), name)
