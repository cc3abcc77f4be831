"""Made-up runs of an experiment whose effects are known: metrics and measurements, no models."""

import math
from zlib import crc32

import numpy as np
from json_lines import write_rows

from selfplay.config import config_text
from selfplay.tasks.buffer import held_out_tasks

COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")


def write_experiment(plan, home, effects):
    """Write all runs of a plan; `effects` are `write_trial`'s by arm."""
    for run in plan.runs(home):
        write_trial(run.directory, run.config, **effects.get(run.arm, {}))


def write_trial(
    directory,
    config,
    *,
    gain=0.0,
    weakest=None,
    spread=0.0,
    rise=0.0,
    wave=0.0,
    turns=0,
    until=None,
    births=(),
    child_behind=0.0,
):
    """Write a run directory.

    gain: held-out gain at the end, reached in a straight line (weakest: that of the last student);
    spread: standard deviation of it between seeds; rise: of complexity, from first to last step;
    wave: amplitude of the solve rate; turns: changes of lead; births: (step, child, parent), the
    child `child_behind` its parent at birth and level 20 steps later.
    """
    rng = np.random.default_rng(crc32("/".join(directory.parts[-3:]).encode()))
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text(config_text(config))
    own, solo, last = rng.normal(0, spread), config.mode == "azr", until or config.steps
    students = ["a0"] if solo else [f"s{i}" for i in range(config.students)]
    teachers = [] if solo else [f"t{i}" for i in range(config.teachers)]
    y = config.eval
    tasks = held_out_tasks(y.held_out, y.tasks)
    common = np.random.default_rng(config.seed)
    skill = np.clip(common.normal(0.4, 0.15, len(tasks)), 0, 1)
    n = np.full(len(tasks), y.samples)
    base = common.binomial(n, skill)
    rows, measured = [], [_measured(0, "base", "base", base, n, base)]
    fathers = {}
    for step in range(1, last + 1):
        born = [b for b in births if b[0] == step]
        for _, child, parent in born:
            students[-1 if parent == students[0] else 0] = child
            fathers[child] = (step, parent)
        rows.append(_metrics(step, config, students, teachers, rng, rise, wave, turns, born))
        if step % y.eval_every and step != config.steps:
            continue
        for i, name in enumerate(students):
            level = gain if weakest is None or i < len(students) - 1 else weakest
            better = (level + own) * step / config.steps
            if name in fathers:
                better -= child_behind * max(0.0, 1 - (step - fathers[name][0]) / 20)
            solved = rng.binomial(n, np.clip(skill + better, 0, 1))
            measured.append(_measured(step, name, "agent" if solo else "student", solved, n, base))
        measured += [_taught(step, name, "teacher") for name in teachers]
    write_rows(directory / "metrics.jsonl", rows)
    write_rows(directory / "eval.jsonl", measured)
    if last == config.steps:
        (directory / "checkpoints" / f"step-{last}").mkdir(parents=True)
    return directory


def _metrics(step, config, students, teachers, rng, rise, wave, turns, born):
    share = step / config.steps
    lead = math.cos(math.pi * turns * share) * 4
    noise = rng.normal(0, 0.02, 8)
    return {
        "step": step,
        "solve_rate": 0.4 + wave * math.sin(20 * share) + noise[0],
        "same_tasks": {"tasks": 8, "difference": 0.05 * share + noise[1]},
        "complexity": {
            n: 5 + rise * share + e for n, e in zip(COMPLEXITY, noise[2:6], strict=True)
        },
        "coverage": {"structures": 10 * step, "new": 10, "commonest": 1 - share},
        "solve_rates": [1, 0, 2, 0, 1, 1],
        "members": {name: {"role": "student", "entropy": 0.5 + step / 1000} for name in students},
        "ratings": {name: [25 + lead, 2.0] for name in teachers}
        | {name: [25 - lead, 2.0] for name in students if teachers},
        "evolution": [
            {"removed": "x", "child": child, "parents": [parent], "operator": "svd_structured"}
            for _, child, parent in born
        ],
        "tokens": {"sampled": 1000},
        "seconds": {"solve": 1.0, "update": 1.0},
    }


def _measured(step, member, role, solved, judged, base):
    gains = (solved - base) / judged
    row = {
        "solve_rate": float(np.mean(solved / judged)),
        "base_solve_rate": float(np.mean(base / judged)),
        "difference": float(gains.mean()),
        "standard_error": float(gains.std(ddof=1) / math.sqrt(len(gains))),
        "pass_at_k": 0.7,
        "solved": solved.tolist(),
        "judged": judged.tolist(),
    }
    return {"step": step, "member": member, "role": role, "solving": row}


def _taught(step, member, role):
    row = {"valid_share": 0.8, "base_solve_rate": 0.4, "reward": 0.1, "new_structures": 3}
    return {"step": step, "member": member, "role": role, "teaching": row}
