"""What `metrics`, `coverage` and `compare` print."""

import json
from collections.abc import Sequence

import click

from code_verifier.commands.terminal import print_table
from code_verifier.metrics.contrast import Contrast
from code_verifier.metrics.diversity import Coverage
from code_verifier.metrics.measurement import Metrics
from code_verifier.metrics.summary import summarise

_KEY_CHARS = 60


def print_summary(metrics: Sequence[Metrics], unparsed: int, as_json: bool) -> None:
    """Counts, then mean and quantiles of every number."""
    table = summarise(metrics)
    structures = len({item.structure for item in metrics})
    if as_json:
        head = {"programs": len(metrics), "unparsed": unparsed, "structures": structures}
        click.echo(json.dumps({**head, "metrics": table}))
        return
    click.echo(f"{len(metrics)} programs, {structures} structures, {unparsed} not measurable")
    rows = [(name, *(f"{value:.1f}" for value in row.values())) for name, row in table.items()]
    if rows:
        print_table([("", *next(iter(table.values()))), *rows])


def print_coverage(trait: str, found: Coverage) -> None:
    """The numbers of one view, its growth in quarters, and what repeats most."""
    click.echo(f"\nby {trait}")
    rows = [
        ("distinct", str(found.distinct), f"{100 * found.share:.1f} % of the programs"),
        ("entropy", f"{found.entropy_bits:.2f}", "bits"),
        ("effective number", f"{found.effective:.1f}", "= 2^entropy"),
        ("chance of new", f"{100 * found.new_chance:.1f}", "% for one more program"),
    ]
    if found.programs:
        places = sorted({round(share * (len(found.growth) - 1)) for share in (0.25, 0.5, 0.75, 1)})
        shown = ", ".join(f"{found.growth[i][1]} after {found.growth[i][0]}" for i in places)
        rows.append(("growth", "", shown))
    for item in found.repeated:
        key = item.key or "(none)"
        short = key if len(key) <= _KEY_CHARS else key[: _KEY_CHARS - 3] + "..."
        rows.append(("repeated", f"{item.count} x", short))
    print_table(rows, "<><")


def print_contrast(found: Contrast) -> None:
    """One line for every number, then the structures."""
    click.echo(f"{found.left_programs} programs on the left, {found.right_programs} on the right")
    names = ("left mean", "right mean", "left med.", "right med.", "KS", "P(r > l)", "delta")
    rows: list[tuple[str, ...]] = [("", *names)]
    for name, shift in found.numbers.items():
        plain = (shift.left_mean, shift.right_mean, shift.left_median, shift.right_median)
        effect = (shift.ks, shift.superiority, shift.cliffs_delta)
        rows.append((name, *(f"{x:.1f}" for x in plain), *(f"{x:.3f}" for x in effect)))
    print_table(rows)
    click.echo(
        f"structures: {found.left_distinct} left, {found.right_distinct} right, "
        f"{len(found.shared)} shared (Jaccard {found.jaccard:.3f})\n"
        f"at equal size: {found.left_at_equal_size:.1f} left, "
        f"{found.right_at_equal_size:.1f} right\n"
        f"programs whose structure the other side has: {100 * found.left_in_right:.1f} % of the "
        f"left, {100 * found.right_in_left:.1f} % of the right"
    )
