"""Evolution: children of the stronger members replace the weakest of each role."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from msgspec import UNSET, UnsetType

from league import League
from lora_evo import Adapter, Lineage, make_child, read_lineage, save_adapter
from lora_evo.model import stream
from selfplay.checkpoint import write_member
from selfplay.files.rows import BirthRow, role_of
from selfplay.members.population import naming
from selfplay.run import Run


def evolve(run: Run, league: League, step: int) -> list[BirthRow]:
    """Replace the weakest of both roles; parents are drawn from the members that stay.

    `ancestors/<id>@<step>` keeps each parent as it was, with its lineage, so that `lora-evo verify`
    can make the child again and `lora-evo lineage` can name the parent.
    """
    births, reasons, frozen = list[BirthRow](), list[str](), run.config.learner.frozen
    counts, grace = run.config.replaced, run.config.league.grace_matches
    for role, count in counts.items():
        ranking = [row for row in league.leaderboard(role) if row.member not in frozen]
        spared = [row.member for row in ranking if row.parents and row.matches < grace]
        # A spared member among the weakest is not replaced, and no stronger one instead of it.
        exempt = len({row.member for row in ranking[::-1][:count]}.intersection(spared))
        weakest = league.select(role, len(league.members(role)) - 1)
        removed = [member for member in weakest if member not in frozen][: count - exempt]
        if not removed:
            why = "all but the best are frozen" if count else "it is the only one"
            if exempt:
                names = ", ".join(spared)
                why = f"league.grace_matches spares {names} in their first {grace} matches"
            reasons.append(f"no {role} is replaced ({why})")
        parents = [row.member for row in league.leaderboard(role) if row.member not in removed]
        for member in removed:
            births.append(_replace(run, league, member, parents, step, spared))
            run.progress.advance(len(births), sum(counts.values()))
    if lines := [line for line in reasons if not births or "spares" in line]:
        click.echo(f"step {step}: {'; '.join(lines)}", err=True)
    return births


def _replace(
    run: Run, league: League, member: str, staying: list[str], step: int, spared: Sequence[str]
) -> BirthRow:
    e, population, role = run.config.evolution, run.population, role_of(member)
    rng = stream(run.seed(step, member, "evolve"))
    cross = len(staying) > 1 and rng.random() < e.crossover_share
    places = rng.choice(len(staying), 2 if cross else 1, replace=False)
    parents = [staying[int(i)] for i in places]
    kind = "crossover" if cross else "mutation"
    pool = [operator for operator in run.extensions.operators if operator.kind == kind]
    operator = pool[int(rng.integers(len(pool)))] if len(pool) > 1 else pool[0]
    name = f"{role[0]}{run.born[role]}"
    run.born[role] += 1
    run.parents[name] = [f"{parent}@{step}" for parent in parents]
    adapters = [population.export(parent) for parent in parents]
    records = [_keep(run, *pair) for pair in zip(run.parents[name], adapters, strict=True)]
    seed = run.seed(step, name, operator.name)
    child = make_child(adapters, operator, seed, strength=e.strength_of(operator))
    generation = 1 + max(record.generation if record else 0 for record in records)
    bits = records[0].quantization if records[0] else None
    lineage = replace(child.lineage, generation=generation, quantization=bits)
    write_member(run, member)
    save_adapter(child.adapter, run.directory / "members" / name, lineage=lineage, overwrite=True)
    population.replace(member, child.adapter, name)
    league.replace(member, name, parents, operator.name)
    rate = _pass_rate(run, role, member, parents[0], name)
    born = member, name, tuple(parents), operator.name, lineage.relative_change
    return BirthRow(*born, rate, tuple(spared) or UNSET, generation)


def _pass_rate(run: Run, role: str, removed: str, parent: str, child: str) -> float | UnsetType:
    """Return the child's learning rate: its parent's, changed by `mutate_rate`; and keep it."""
    run.rates.pop(removed, None)
    share, configured = run.config.evolution.mutate_rate, run.config.learner.learning_rate_of(role)
    if not share and parent not in run.rates:
        return UNSET
    sign = stream(run.seed(child, "rate")).choice((-1.0, 1.0))
    run.rates[child] = run.rates.get(parent, configured) * (1.0 + share * float(sign))
    return run.rates[child]


def _keep(run: Run, name: str, parent: Adapter) -> Lineage | None:
    """Save a parent as `ancestors/<name>`, where name is `id@step`; return its lineage."""
    home = Path(run.directory, "members", name.partition("@")[0])
    record, ancestor = read_lineage(home), run.directory / "ancestors" / name
    if not ancestor.exists():
        with naming(name):
            save_adapter(parent, ancestor, lineage=record)
    return record
