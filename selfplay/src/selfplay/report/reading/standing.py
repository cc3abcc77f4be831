"""Where members stand against the frozen base: the numbers that a report leads with."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean

from selfplay.records.yardstick_row import BASE, RateRow, YardstickRow


def latest(standings: Sequence[YardstickRow]) -> list[YardstickRow]:
    """Return the standings of the last measurement."""
    last = max((s.step for s in standings), default=0)
    return [s for s in standings if s.step == last]


def solvers(standings: Sequence[YardstickRow]) -> list[YardstickRow]:
    """Return those with a rate on held-out tasks, the base left out."""
    return [s for s in standings if s.rate and s.role != BASE]


def teachers(standings: Sequence[YardstickRow]) -> list[YardstickRow]:
    """Return those whose proposals were measured, the base left out."""
    return [s for s in standings if s.taught and s.role != BASE]


def conclusion(standings: Sequence[YardstickRow]) -> str:
    """Return one line: held-out rate before and after, mean of the living; empty without any.

    Members that began with a warm start have a rate of their own before the first step.
    """
    found = solvers(latest(standings))
    rate = mean_rate([r for s in found if (r := s.rate)])
    if rate is None or rate.solve_rate is None or rate.base_solve_rate is None:
        return ""
    who = "the agent" if found[0].role == "agent" else "students"
    first = mean_rate([r for s in solvers(standings) if s.step == 0 and (r := s.rate)])
    start = ""
    if found[0].step > 0 and first is not None and first.solve_rate is not None:
        start = f" (warm start: {first.solve_rate:.1%})"
    return (
        f"Held-out tasks, never trained on: {who} solve {rate.solve_rate:.1%} after step "
        f"{found[0].step}{start}, the frozen base {rate.base_solve_rate:.1%} "
        f"({100 * (rate.solve_rate - rate.base_solve_rate):+.1f} points)"
    ).replace("%", " %")


def standing_lines(standings: Sequence[YardstickRow]) -> list[str]:
    """Return the last measurement as lines of a terminal."""
    last = latest(standings)
    lines = []
    solving, teaching = solvers(last), teachers(last)
    if solving:
        tasks, samples = sampling(solving[0])
        lines.append(
            f"{tasks} held-out tasks, {samples} samples each, after step {solving[0].step}:"
        )
        lines += [f"  {s.member:6}{rate_text(r)}" for s in solving if (r := s.rate)]
    if teaching:
        lines.append("Tasks of the teachers, solved by the frozen base:")
        lines += [
            f"  {s.member:6}{_percent(t.base_solve_rate)} solved, {_percent(t.valid_share)} valid, "
            f"reward against the base {_signed(t.reward)}"
            for s in [*base_teaching(standings), *teaching]
            if (t := s.taught)
        ]
    return lines


def base_teaching(standings: Sequence[YardstickRow]) -> list[YardstickRow]:
    """Return the first measurement of the base's own proposals, if there is one."""
    return [s for s in standings if s.role == BASE and s.taught][:1]


def sampling(standing: YardstickRow) -> tuple[int, int]:
    """Return how many held-out tasks a solver had, and how many attempts at each."""
    judged = standing.rate.judged if standing.rate else ()
    return len(judged), max(judged, default=0)


def rate_text(rate: RateRow) -> str:
    """Return `38.6 % -> 47.0 % (+8.4 ± 1.8 points)`: base, member, difference."""
    error = "" if rate.standard_error is None else f" ± {100 * rate.standard_error:.1f}"
    gain = "–" if rate.difference is None else f"{100 * rate.difference:+.1f}"
    base, member = _percent(rate.base_solve_rate), _percent(rate.solve_rate)
    return f"{base} → {member} ({gain}{error} points)"


def mean_rate(rates: Sequence[RateRow]) -> RateRow | None:
    """Return the mean of several members' rates on the same tasks.

    Its error is that of members that err together: the root mean square of theirs.
    """
    if not rates:
        return None
    errors = [r.standard_error for r in rates if r.standard_error is not None]
    return RateRow(
        solve_rate=_mean([r.solve_rate for r in rates]),
        base_solve_rate=_mean([r.base_solve_rate for r in rates]),
        difference=_mean([r.difference for r in rates]),
        standard_error=sqrt(fmean(e * e for e in errors)) if errors else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return fmean(known) if known else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
