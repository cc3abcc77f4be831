"""A mean field of self-play: which rewards and populations fall into traps, before anything trains.

    python -m studies.collapse.mean_field --out DIR [--steps 600] [--seeds 4]

Writes DIR/phases.json and DIR/phases.svg.

Tasks are of K niches, which students learn, and T traps, which luck solves with probability p and
nobody learns. Teacher m writes from niche or trap k with probability pi_mk, student n solves niche
k with probability s_nk.

* A teacher moves by replicator dynamics, the natural gradient of a softmax, on the expected reward
  of its match: log pi_mk += eta R_k, then normalise.
* A student gains on what its teacher writes, by REINFORCE's gradient through a sigmoid, and forgets
  without practice: s_nk += alpha pi_mk s (1 - s) - phi (s - s_0). Gains differ between students.
* Teachers and students are paired round robin. With evolution the worse half of teachers, by
  reward, and of students, by skill, is replaced by copies of the better half every `EVOLVE_EVERY`
  steps, with noise on a child's logits.

Rewards are expectations over G attempts, exact for binomial solve rates:

* populora: 1 - rate, 0 where nothing is solved: 1 - s - (1 - s)^G. A trap pays 1 - (1 - p)^G - p,
  so teachers prefer it to a niche whose skill is above `threshold`, about 1 - that.
* learnability: 4 rate (1 - rate): 4 s (1 - s) (G - 1) / G.
* regret: max(0, rate of a rival - rate) of two samples, as a run computes it: noise alone pays,
  on a trap too.
* ideal_regret: max(0, s_rival - s), what it would be with attempts without end: a trap pays 0.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
REWARDS = ("populora", "learnability", "regret", "ideal_regret")
EVOLVE_EVERY = 15
START, SPREAD = 0.28, 0.3
"""Skill of the base; standard deviation of initial logits and of the logarithm of gains."""


@dataclass(frozen=True)
class World:
    """One point of the scan.

    - niches, traps: how many of each; luck: p of every trap.
    - attempts: G. members: N teachers and N students.
    - rate: eta of teachers per step. gain, forgetting: alpha and phi of students per step.
    """

    niches: int = 8
    traps: int = 1
    luck: float = 0.25
    attempts: int = 6
    members: int = 1
    rate: float = 0.1
    reward: str = "populora"
    evolution: bool = False
    gain: float = 0.6
    forgetting: float = 0.005
    steps: int = 600


@dataclass(frozen=True)
class Course:
    """What became of a world, means over its seeds.

    - trap_share: share of tasks that are traps, at the end.
    - skill: mean over niches and students at the end. best: its highest.
    - extinct: share of niches that get less than a tenth of an even share.
    - collapsed: share of the seeds with more traps than half.
    """

    trap_share: float
    skill: float
    best: float
    extinct: float
    collapsed: float


def expected_reward(kind: str, skill: Floats, rival: Floats, attempts: int) -> Floats:
    """Return a teacher's expected reward on tasks of these skills, of the same shape."""
    if kind == "populora":
        return 1.0 - skill - (1.0 - skill) ** attempts
    if kind == "learnability":
        return 4.0 * skill * (1.0 - skill) * (attempts - 1) / attempts
    if kind == "ideal_regret":
        return np.maximum(0.0, rival - skill)
    # E max(0, Y - X) = sum over t of P(X < t) P(Y >= t)
    below, rival_below = _below(skill, attempts), _below(rival, attempts)
    total: Floats = (below * (1.0 - rival_below)).sum(axis=-1) / attempts
    return total


def _below(skill: Floats, attempts: int) -> Floats:
    """Return P(X < t) for t = 1 to G, X binomial."""
    k = np.arange(attempts + 1)
    choose = np.array([comb(attempts, int(i)) for i in k], dtype=np.float64)
    mass = choose * skill[..., None] ** k * (1.0 - skill[..., None]) ** (attempts - k)
    return np.cumsum(mass, axis=-1)[..., :attempts]


def trap_pay(luck: float, attempts: int) -> float:
    """Return what a trap pays under populora's reward: 1 - (1 - p)^G - p."""
    return 1.0 - (1.0 - luck) ** attempts - luck


def threshold(luck: float, attempts: int) -> float:
    """Return the skill above which a niche pays less than a trap, by bisection.

    It is the upper solution of 1 - s - (1 - s)^G = trap_pay, close to 1 - trap_pay. Below the peak
    of the reward, at s = 1 - G^(-1 / (G - 1)), the reward rises with skill.
    """
    pay = trap_pay(luck, attempts)
    low, high = 1.0 - attempts ** (-1.0 / (attempts - 1)), 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if 1.0 - middle - (1.0 - middle) ** attempts > pay:
            low = middle
        else:
            high = middle
    return low


def simulate(world: World, seeds: Sequence[int]) -> Course:
    """Return the course of a world over all seeds at once."""
    shape = (len(seeds), world.members, world.niches + world.traps)
    streams = [np.random.default_rng([seed, 20260601]) for seed in seeds]
    logits = np.stack([SPREAD * rng.standard_normal(shape[1:]) for rng in streams])
    gains = np.stack([np.exp(SPREAD * rng.standard_normal(shape[1:])) for rng in streams])
    gains *= world.gain
    skill = np.full(shape, START)
    skill[..., world.niches :] = world.luck
    gains[..., world.niches :] = 0.0
    rewards = np.zeros(shape[:2])
    best = np.zeros(shape[0])
    for step in range(1, world.steps + 1):
        policy = _softmax(logits)
        order = (np.arange(world.members) + step) % world.members
        met = skill[:, order]
        rival = skill[:, (order + 1) % world.members]
        reward = expected_reward(world.reward, met, rival, world.attempts)
        rewards += (policy * reward).sum(axis=-1)
        logits = logits + world.rate * reward
        logits -= logits.max(axis=-1, keepdims=True)
        practice = np.empty_like(policy)
        practice[:, order] = policy
        learned = gains * practice * skill * (1.0 - skill)
        forgotten = world.forgetting * (skill - START)
        forgotten[..., world.niches :] = 0.0
        skill = np.clip(skill + learned - forgotten, 0.0, 1.0)
        best = np.maximum(best, skill[..., : world.niches].mean(axis=(1, 2)))
        if world.evolution and world.members > 1 and step % EVOLVE_EVERY == 0:
            _replace(logits, rewards, streams, noise=SPREAD / 3)
            _replace(skill, skill[..., : world.niches].mean(axis=-1), streams, noise=0.0)
            rewards[:] = 0.0
    share = _softmax(logits).mean(axis=1)
    traps = share[:, world.niches :].sum(axis=-1)
    even = 1.0 / share.shape[-1]
    return Course(
        trap_share=float(traps.mean()),
        skill=float(skill[..., : world.niches].mean()),
        best=float(best.mean()),
        extinct=float((share[:, : world.niches] < even / 10).mean()),
        collapsed=float((traps > 0.5).mean()),
    )


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def _replace(
    values: Floats, fitness: Floats, streams: Sequence[np.random.Generator], noise: float
) -> None:
    """Replace the worse half of the members of every seed by copies of the better, in place."""
    half = values.shape[1] // 2
    for row, scores, rng in zip(values, fitness, streams, strict=True):
        order = np.argsort(scores, kind="stable")
        row[order[:half]] = row[order[-half:]] + noise * rng.standard_normal((half, row.shape[1]))


GRID: dict[str, tuple[Any, ...]] = {
    "reward": REWARDS,
    "members": (1, 2, 4, 8),
    "evolution": (False, True),
    "niches": (4, 8, 16),
    "traps": (0, 1, 3),
    "luck": (0.125, 0.25, 0.5),
    "attempts": (4, 6, 16),
    "rate": (0.0, 0.03, 0.1, 0.3),
}


def scan(steps: int, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row for every point of `GRID` that is a world of its own."""
    rows = []
    for point in itertools.product(*GRID.values()):
        world = World(**dict(zip(GRID, point, strict=True)), steps=steps)
        alone = world.members == 1 and (world.evolution or "regret" in world.reward)
        if alone or (world.traps == 0 and world.luck != 0.25):
            continue
        rows.append({**asdict(world), **asdict(simulate(world, seeds))})
    return rows


def picture(rows: Sequence[dict[str, Any]], measure: str = "trap_share") -> alt.LayerChart:
    """Return a chart: a row for each reward and population, a column for each trap and rate.

    Cells show the measure at 8 niches and 6 attempts.
    """
    cells = [
        {
            "population": f"{r['reward']} {r['members']}T+{r['members']}S"
            + (" evolves" if r["evolution"] else ""),
            "world": (f"p={r['luck']:g}" if r["traps"] else "no trap") + f", rate {r['rate']:g}",
            measure: r[measure],
        }
        for r in sorted(rows, key=lambda r: (r["traps"], r["luck"], r["rate"]))
        if r["niches"] == 8 and r["attempts"] == 6 and r["traps"] in (0, 1)
    ]
    chart = alt.Chart(alt.Data(values=cells), title=f"mean field: {measure} at the end").encode(
        alt.X("world:N", sort=None), alt.Y("population:N", sort=None)
    )
    shades = alt.Color(f"{measure}:Q", scale=alt.Scale(domain=[0, 1], scheme="blues"))
    numbers = alt.Text(f"{measure}:Q", format=".2f")
    layers = chart.mark_rect().encode(shades) + chart.mark_text().encode(numbers)
    return layers.properties(width=alt.Step(40))


def main() -> None:
    """Scan, and write the phase diagram."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = scan(options.steps, range(options.seeds))
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (options.out / "phases.json").write_text(text)
    picture(rows).save(options.out / "phases.svg")
    print(f"{len(rows)} worlds: {options.out / 'phases.json'}, {options.out / 'phases.svg'}")


if __name__ == "__main__":
    main()
