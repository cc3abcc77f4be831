"""Evolution: the weakest members of each role give way to children made in weight space."""

import shutil
from pathlib import Path

from league import League
from lora_evo import cross_directory, load_adapter, mutate_directory, save_adapter
from lora_evo.model import stream
from selfplay.checkpoint import write_member
from selfplay.rows import BirthRow
from selfplay.run import Run


def evolve(run: Run, league: League, step: int) -> list[BirthRow]:
    """Replace the weakest of both roles; parents are drawn from the members that stay.

    Each parent is kept as it was, under `ancestors/<id>@<step>`, so that `lora-evo verify` can
    make the child again.
    """
    births = []
    for role in ("teacher", "student"):
        size = len(league.members(role))
        count = min(max(1, round(size * run.config.evolution.replaced_fraction)), size - 1)
        removed = league.select(role, count)
        parents = [row.member for row in league.leaderboard(role) if row.member not in removed]
        for member in removed:
            births.append(_replace(run, league, role, member, parents, step))
    return births


def _replace(
    run: Run, league: League, role: str, member: str, staying: list[str], step: int
) -> BirthRow:
    e = run.config.evolution
    rng = stream(run.seed(step, member, "evolve"))
    cross = len(staying) > 1 and rng.random() < e.crossover_share
    picked = rng.choice(len(staying), 2 if cross else 1, replace=False)
    parents = [staying[int(i)] for i in picked]
    operator = e.crossover if cross else e.mutation
    child = f"{role[0]}{run.born[role]}"
    run.born[role] += 1
    ancestors = [_ancestor(run, parent, step) for parent in parents]
    write_member(run, member)
    home = run.directory / "members" / child
    seed = run.seed(step, child, operator)
    if home.exists():
        shutil.rmtree(home)
    if cross:
        lineage = cross_directory(operator, ancestors, home, seed=seed)
    else:
        lineage = mutate_directory(operator, ancestors[0], home, seed=seed, strength=e.strength)
    run.population.replace(member, load_adapter(home), child)
    league.replace(member, child, parents, operator)
    return BirthRow(member, child, tuple(parents), operator, lineage.relative_change)


def _ancestor(run: Run, parent: str, step: int) -> Path:
    directory = run.directory / "ancestors" / f"{parent}@{step}"
    if not directory.exists():
        directory.parent.mkdir(exist_ok=True)
        save_adapter(run.population.export(parent), directory)
    return directory
