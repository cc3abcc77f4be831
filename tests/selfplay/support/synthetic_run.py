"""Made-up run directories whose effects are known, and what is read back from pages on them."""

import json
import math
import random
import re
from zlib import crc32

import numpy as np
import yaml
from json_lines import write_rows

from selfplay.config import config_text
from selfplay.tasks.held_out import held_out_tasks

KINDS = ("code_o", "code_i", "code_f")
COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")
HOSTILE = "</script><script>alert(1)</script>"
PROGRAM = """def f(xs):
    total = 0
    for x in xs:
        if x > {limit} and x < 9:
            total += x
    return total"""
BIRTHS = (*((10, "t0", "t2", ["t1"]), (20, "s0", "s2", ["s1"])), (30, "t2", "t3", ["t1", "t2"]))
"""The step, who is removed, the child and its parents."""


def make_run(directory, *, steps=40, hostile=False, births=BIRTHS):
    """Write a run of 2 teachers and 2 students with its proposals."""
    rng = random.Random(1)
    directory.mkdir(parents=True)
    members = ["t0", "t1", "s0", "s1"]
    config = {"base": "nano", "teachers": 2, "students": 2, "steps": steps, "seed": 1}
    (directory / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    noise, rows, tasks = np.random.default_rng(1), [], []
    for step in range(1, steps + 1):
        rows.append(make_step(noise, step, steps, members, births))
        for kind in KINDS:
            names = [(teacher, student) for teacher in members[:2] for student in members[2:]]
            tasks += [
                make_task(rng, step, *names[i % len(names)], kind, i, hostile) for i in range(8)
            ]
    write_rows(directory / "metrics.jsonl", rows)
    write_rows(directory / "tasks.jsonl", tasks)
    return directory


def write_experiment(plan, home, effects):
    """Write all runs of a plan; `effects` are `write_trial`'s by arm."""
    for run in plan.runs(home):
        write_trial(run.directory, run.config, **effects.get(run.arm, {}))


def write_trial(directory, config, *, gain=0.0, weakest=None, until=None, births=(), **effects):
    """Write a run with measurements.

    gain: held-out gain at the end, reached in a straight line (weakest: that of the last student).
    effects: `make_step`'s.
    """
    rng = np.random.default_rng(crc32("/".join(directory.parts[-3:]).encode()))
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text(config_text(config))
    last, members, y = until or config.steps, config.founders, config.eval
    tasks = held_out_tasks(y.held_out, y.tasks)
    common = np.random.default_rng(config.seed)
    skill = np.clip(common.normal(0.4, 0.15, len(tasks)), 0, 1)
    n = np.full(len(tasks), y.samples)
    base = common.binomial(n, skill)
    rows, measured = [], [_measured(0, "base", "base", base, n, base)]
    for step in range(1, last + 1):
        rows.append(make_step(rng, step, config.steps, members, births, **effects))
        if step % y.eval_every and step != config.steps:
            continue
        students = [name for name in members if name[0] != "t"]
        for i, name in enumerate(students):
            level = gain if weakest is None or i < len(students) - 1 else weakest
            better = level * step / config.steps
            solved = rng.binomial(n, np.clip(skill + better, 0, 1))
            role = "agent" if name[0] == "a" else "student"
            measured.append(_measured(step, name, role, solved, n, base))
        taught = {"valid_share": 0.8, "base_solve_rate": 0.4, "reward": 0.1, "new_structures": 3}
        measured += [
            {"step": step, "member": name, "role": "teacher", "teaching": taught}
            for name in members
            if name[0] == "t"
        ]
    write_rows(directory / "metrics.jsonl", rows)
    write_rows(directory / "eval.jsonl", measured)
    if last == config.steps:
        (directory / "checkpoints" / f"step-{last}").mkdir(parents=True)
    return directory


def make_step(rng, step, steps, members, births, *, rise=1.0, wave=0.0, turns=0):
    """Return a row of metrics; children take their places among the members.

    rise: of complexity, from first to last step; wave: amplitude of the solve rate; turns: changes
    of lead between the roles.
    """
    share, noise = step / steps, rng.normal(0, 0.02, 8)
    lead = math.cos(math.pi * turns * share) * 4
    kinds = {k: 0.4 - 0.1 * i + 0.25 * share + noise[i] for i, k in enumerate(KINDS)}
    roles = {"t": "teacher", "s": "student", "a": "agent"}
    row = {
        "step": step,
        "teacher_reward": 0.1 * share + noise[6],
        "student_reward": 0.5 * share - 0.35 + noise[7],
        "valid_share": 0.55 + 0.2 * share,
        "solve_rate": 0.4 + wave * math.sin(20 * share) + noise[0] if step != 7 else None,
        "same_tasks": {"tasks": 8, "difference": 0.05 * share + noise[1]},
        "kinds": {
            k: {"proposed": 16, "valid_share": 0.6, "solve_rate": r} for k, r in kinds.items()
        },
        "rejected": {"form": step % 6, "exception": 1 + step % 5},
        "complexity": dict(zip(COMPLEXITY, 5 + rise * share + noise[2:6], strict=True)),
        "coverage": {"structures": 10 * step, "new": 10, "commonest": 1 - share},
        "solve_rates": [1, 0, 2, 0, 1, 1],
        "members": {m: {"role": roles[m[0]], "entropy": 0.5 + step / 1000} for m in members},
        "tokens": {"sampled": 1000, "trained": 400},
        "seconds": {"propose": 0.5, "solve": 0.7, "update": 0.8},
    }
    birth = next((birth for birth in births if birth[0] == step), None)
    if birth:
        _, removed, child, parents = birth
        operator = "slot_swap" if parents[1:] else "svd_structured"
        members[members.index(removed)] = child
        born = {"removed": removed, "child": child, "parents": parents, "operator": operator}
        row["evolution"] = [born]
    lead_of = {"t": lead, "s": -lead}
    row["ratings"] = {m: [25 + lead_of[m[0]], 2.0] for m in members if m[0] in lead_of}
    return row


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


def make_task(rng, step, teacher, student, kind, i, hostile):
    """Return the row of a proposal; of eight the last two are rejected."""
    limit, xs = rng.randint(0, 5), [rng.randint(0, 9) for _ in range(4)]
    result, right = sum(x for x in xs if limit < x < 9), rng.randint(0, 4)
    program = PROGRAM.format(limit=limit)
    task = {
        "id": f"{step}-{teacher}-{kind}-{i}",
        "step": step,
        "teacher": teacher,
        "student": student,
        "kind": kind,
        "program": program + (f"\n# {HOSTILE}\x00\u202e\ud800" if hostile else ""),
        "input": str(xs),
        "output": str(result),
        "status": "ok",
    }
    if kind == "code_f":
        pairs = {"inputs": ["[1, 2]", "[7]", "[8, 8, 1]"], "outputs": ["2", "7", "16"]}
        task |= {"input": None, "output": None, "message": "Add it up.", "visible": 2, **pairs}
    if i == 6:
        text = {"program": "", "text": "f(xs) is <b>bold</b>"}
        return task | {"status": "form", "reason": "no program found", "reward": -1.0, **text}
    if i == 7:
        return task | {"status": "exception", "reason": "NameError: name 'y'", "reward": -1.0}
    attempts = [
        {"thought": f"total = {result}", "answer": str(result), "score": 1.0, "count": right},
        {"thought": "<i>hm</i>", "answer": str(result + 1), "score": 0.0, "count": 5 - right},
        {"thought": "xs ...", "answer": None, "score": 0.0, "count": 1},
    ]
    reward = 1 - right / 6 if right else 0.0
    found = {"solve_rate": right / 6, "reward": reward}
    return task | found | {"attempts": [tried for tried in attempts if tried["count"]]}


def without_the_library(text):
    """A page without the script that is the same in every page."""
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def charts_in(text):
    """The charts of a page by name."""
    data = re.findall(
        r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(data[0])
