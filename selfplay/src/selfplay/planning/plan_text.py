"""A plan in words and as plain values."""

from dataclasses import asdict
from typing import Any

from selfplay.planning.machine import COMPUTE_SHARE, GIB, READ_SHARE
from selfplay.planning.plan import Plan


def verdict(plan: Plan, changes: list[str]) -> str:
    """Whether it fits, and what to change if not: one line."""
    where = f"{plan.machine.name} ({plan.machine.memory / GIB:.1f} GiB)"
    takes = f"{plan.model} needs about {plan.peak / GIB:.1f} GiB"
    if plan.fits:
        return f"{takes} and fits {where}"
    line = f"{takes} and does not fit {where}"
    if not changes:
        return f"{line}; no setting makes it smaller: take a larger device or a smaller base"
    return f"{line}; try, what costs least first: " + " ".join(f"--set {c}" for c in changes)


def plan_text(plan: Plan, changes: list[str], left: Plan | None) -> str:
    """The whole plan; left: the plan after the changes."""
    s = plan.step
    lines = [
        f"{plan.model}: {_count(plan.parameters)} parameters; {plan.members} adapters of "
        f"{_count(plan.adapter_parameters)}",
        "",
        "memory, GiB",
        *(f"  {name:44}{size / GIB:9.2f}" for name, size in plan.memory.items()),
        f"  {'while learning':44}{plan.learning / GIB:9.2f}",
        f"  {'while sampling':44}{plan.sampling / GIB:9.2f}",
        f"  activations without gradient checkpointing {plan.activations['plain'] / GIB:.2f}, "
        f"with it {plan.activations['checkpointed'] / GIB:.2f}",
        "",
        "a step, at most",
        f"  {s.proposals.count:,} proposals and {s.attempts.count:,} attempts",
        f"  {s.sampled_tokens:,} tokens sampled, {s.learned_tokens:,} learned from",
        "",
        f"seconds a step on {plan.machine.name}, completions at {s.fill:.0%} of their limits",
        *(f"  {name:44}{value:9.1f}" for name, value in plan.seconds.items()),
        f"  {'all':44}{sum(plan.seconds.values()):9.1f}",
        f"  reckoned with {plan.machine.flops / 1e12:,.3g} TFLOP/s and "
        f"{plan.machine.reads / 1e9:,.3g} GB/s"
        + (f": {COMPUTE_SHARE:.0%} and {READ_SHARE:.0%} of the peaks" * plan.machine.is_gpu),
        "",
        "disk, GiB",
        f"  {'a checkpoint':44}{plan.checkpoint / GIB:9.2f}",
        f"  {'those that are kept, and the members':44}{plan.disk / GIB:9.2f}",
        "",
        verdict(plan, changes),
    ]
    if left is not None and changes:
        fits = "fits" if left.fits else "still does not fit"
        lines.append(f"with these it needs {left.peak / GIB:.1f} GiB and {fits}")
    return "\n".join(lines)


def plan_values(plan: Plan, changes: list[str]) -> dict[str, Any]:
    """The plan for JSON: sizes in bytes."""
    return {
        **asdict(plan),
        "sampled_tokens": plan.step.sampled_tokens,
        "learned_tokens": plan.step.learned_tokens,
        "peak": plan.peak,
        "fits": plan.fits,
        "changes": changes,
    }


def _count(number: int) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return str(number)
