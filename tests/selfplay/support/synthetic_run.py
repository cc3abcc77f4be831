"""Made-up run directories for the tests of the report, and what is read back from its pages."""

import json
import random
import re

import yaml
from json_lines import write_rows

KINDS = ("code_o", "code_i", "code_f")
PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "save")
HOSTILE = "</script><script>alert(1)</script>"
PROGRAM = """def f(xs):
    total = 0
    for x in xs:
        if x > {limit} and x < 9:
            total += x
    return total"""


def make_run(directory, *, steps=40, seed=1, mode="populora", hostile=False, births=3):
    """Write a run of 2 teachers and 2 students whose students get better with the steps."""
    rng, solo = random.Random(seed), mode == "azr"
    directory.mkdir(parents=True)
    teachers, students = (["a0"], ["a0"]) if solo else (["t0", "t1"], ["s0", "s1"])
    every = max(1, steps // (births + 1))
    config = {
        "base": "nano",
        "mode": mode,
        "teachers": len(teachers),
        "students": len(students),
        "steps": steps,
        "seed": seed,
        "evolution": {"evolve_every": every},
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    rows, tasks, next_id = [], [], {"t": 2, "s": 2}
    for step in range(1, steps + 1):
        row = make_step(rng, step, step / steps, teachers, students)
        if not solo and step % every == 0 and step < steps:
            side, pool = ("t", teachers) if (step // every) % 2 else ("s", students)
            (removed, parent), child = pool, f"{side}{next_id[side]}"
            next_id[side] += 1
            crossover = step // every == births
            birth = {"removed": removed, "child": child, "relative_change": 0.15}
            birth["parents"] = [parent, removed] if crossover else [parent]
            birth["operator"] = "slot_swap" if crossover else "svd_structured"
            row["evolution"], pool[0] = [birth], child
        alive = [] if solo else teachers + students
        rows.append(row | {"ratings": {name: [rng.gauss(25, 2), 6.0] for name in alive}})
        for kind in KINDS:
            for i in range(8):
                names = teachers[i % len(teachers)], students[i % len(students)]
                tasks.append(make_task(rng, step, *names, kind, i, hostile))
    write_rows(directory / "metrics.jsonl", rows)
    write_rows(directory / "tasks.jsonl", tasks)
    return directory


def make_step(rng, step, skill, teachers, students):
    """Return a row of metrics without ratings and births; skill: 0 to 1."""
    rates = {k: 0.4 - 0.1 * i + 0.25 * skill + rng.gauss(0, 0.06) for i, k in enumerate(KINDS)}
    valid, solve = min(0.95, 0.55 + 0.2 * skill + rng.gauss(0, 0.05)), sum(rates.values()) / 3
    members = {
        name: {
            "role": "agent" if teachers == students else "teacher" if name[0] == "t" else "student",
            "reward": rng.gauss(0.2, 0.1),
            "valid_share": valid,
            "solve_rate": solve,
            "grad_norm": abs(rng.gauss(0.4, 0.1)),
            "entropy": max(0.05, 0.9 - 0.3 * skill + rng.gauss(0, 0.03)),
        }
        for name in (*teachers, *students)
    }
    kinds = {k: {"proposed": 16, "valid_share": valid, "solve_rate": r} for k, r in rates.items()}
    return {
        "step": step,
        "teacher_reward": rng.gauss(0.05 + 0.1 * skill, 0.07),
        "student_reward": rng.gauss(-0.35 + 0.5 * skill, 0.08),
        "valid_share": valid,
        "solve_rate": solve if step != 7 else None,
        "kinds": kinds,
        "rejected": {"form": rng.randint(0, 6), "exception": rng.randint(1, 6)},
        "complexity": {
            name: rng.gauss(start + skill, 0.3)
            for name, start in (("ast_depth", 7), ("cyclomatic", 2), ("loc", 6), ("variables", 3))
        },
        "coverage": {"structures": 6 * step, "new": 6, "commonest": step / 100},
        "solve_rates": [rng.randint(2, 14) for _ in range(6)],
        "members": members,
        "frac_reward_zero_std": 0.3,
        "tokens": {"sampled": 20000, "trained": 9000},
        "seconds": dict(zip(PHASES, (0.02, 1.4, 0.6, 2.4, 1.9, 0.1, 0.3), strict=True)),
    }


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
