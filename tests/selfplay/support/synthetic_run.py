"""Made-up run directories for the tests of the report, and a parser that reads a page back."""

import json
import random
import re
from html.parser import HTMLParser

import yaml

KINDS = ("code_o", "code_i", "code_f")
PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "save")
HOSTILE = "</script><script>alert(1)</script>"
PROGRAM = """def f(xs):
    total = 0
    for x in xs:
        if x > {limit} and x < 9:
            total += x
    return total"""


def make_run(directory, *, steps=40, seed=1, mode="populora", drift=1.0, hostile=False, births=3):
    """Write a run of 2 teachers and 2 students whose students get better with the steps."""
    rng = random.Random(seed)
    directory.mkdir(parents=True)
    solo = mode == "azr"
    teachers, students = (["a0"], ["a0"]) if solo else (["t0", "t1"], ["s0", "s1"])
    config = {
        "base": "nano",
        "mode": mode,
        "teachers": len(teachers),
        "students": len(students),
        "steps": steps,
        "seed": seed,
        "rollout": {"proposals": 8, "kinds": list(KINDS)},
        "learner": {"learning_rate": 1e-3},
        "evolution": {"evolve_every": max(1, steps // (births + 1))},
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    ratings = {} if solo else {name: [25.0, 8.3] for name in teachers + students}
    structures, rows, tasks, next_id = 0, [], [], {"t": 2, "s": 2}
    for step in range(1, steps + 1):
        skill = drift * step / steps
        valid = min(0.95, 0.55 + 0.2 * skill + rng.gauss(0, 0.05))
        rates = {
            k: base + 0.25 * skill + rng.gauss(0, 0.06)
            for k, base in zip(KINDS, (0.4, 0.3, 0.2), strict=True)
        }
        solve = sum(rates.values()) / 3
        new = rng.randint(3, 9)
        structures += new
        members = {}
        for name in dict.fromkeys(teachers + students):
            role = "agent" if solo else "teacher" if name in teachers else "student"
            members[name] = {
                "role": role,
                "reward": rng.gauss(0.2, 0.1),
                "valid_share": valid,
                "solve_rate": solve,
                "well_formed": 0.9,
                "loss": rng.gauss(0, 0.01),
                "grad_norm": abs(rng.gauss(0.4, 0.1)),
                "entropy": max(0.05, 0.9 - 0.3 * skill + rng.gauss(0, 0.03)),
            }
        for name in ratings:
            mu, sigma = ratings[name]
            ratings[name] = [
                mu + rng.gauss(0.15 if name[0] == "s" else -0.1, 0.6),
                max(1.2, sigma * 0.93),
            ]
        evolution = []
        every = config["evolution"]["evolve_every"]
        if not solo and step % every == 0 and step < steps:
            side = "t" if (step // every) % 2 else "s"
            pool = teachers if side == "t" else students
            removed, parent = pool[0], pool[1]
            child = f"{side}{next_id[side]}"
            next_id[side] += 1
            crossover = step // every == births
            evolution.append(
                {
                    "removed": removed,
                    "child": child,
                    "parents": [parent, removed] if crossover else [parent],
                    "operator": "slot_swap" if crossover else "svd_structured",
                    "relative_change": 0.15,
                }
            )
            pool[0] = child
            ratings.pop(removed)
            ratings[child] = [25.0, 6.0]
        proposed = 8 * len(teachers)
        rejected = {
            "form": rng.randint(0, 6),
            "exception": rng.randint(1, 6),
            "timeout": rng.randint(0, 1),
        }
        rows.append(
            {
                "step": step,
                "teacher_reward": rng.gauss(0.05 + 0.1 * skill, 0.07),
                "student_reward": rng.gauss(-0.35 + 0.5 * skill, 0.08),
                "valid_share": valid,
                "solve_rate": solve if step != 7 else None,
                "kinds": {
                    k: {"proposed": proposed, "valid_share": valid, "solve_rate": rates[k]}
                    for k in KINDS
                },
                "rejected": rejected,
                "complexity": {
                    "ast_depth": rng.gauss(7 + skill, 0.4),
                    "cyclomatic": rng.gauss(2.2 + skill, 0.3),
                    "loc": rng.gauss(6 + 2 * skill, 0.5),
                    "variables": rng.gauss(2.5 + skill, 0.2),
                },
                "coverage": {"structures": structures, "new": new},
                "solve_rates": [rng.randint(2, 14) for _ in range(6)],
                "members": members,
                "ratings": dict(ratings),
                "matches": []
                if solo
                else [
                    {
                        "teacher": teachers[0],
                        "student": students[0],
                        "predicted": 0.5,
                        "observed": solve,
                    }
                ],
                "evolution": evolution,
                "frac_reward_zero_std": 0.3,
                "tokens": {"sampled": 20000, "trained": 9000},
                "seconds": dict(zip(PHASES, (0.02, 1.4, 0.6, 2.4, 1.9, 0.1, 0.3), strict=True)),
            }
        )
        for kind in KINDS:
            for i in range(8):
                tasks.append(
                    make_task(
                        rng,
                        step,
                        teachers[i % len(teachers)],
                        students[i % len(students)],
                        kind,
                        i,
                        hostile,
                    )
                )
    write_rows(directory / "metrics.jsonl", rows)
    write_rows(directory / "tasks.jsonl", tasks)
    return directory


def make_task(rng, step, teacher, student, kind, i, hostile):
    limit, xs = rng.randint(0, 5), [rng.randint(0, 9) for _ in range(4)]
    result = sum(x for x in xs if limit < x < 9)
    task = {
        "id": f"{step}-{teacher}-{kind}-{i}",
        "step": step,
        "teacher": teacher,
        "student": student,
        "kind": kind,
        "program": PROGRAM.format(limit=limit)
        + (f"\n# {HOSTILE}\x00\u202e\ud800" if hostile else ""),
        "input": str(xs),
        "output": str(result),
        "inputs": [],
        "outputs": [],
        "message": "",
        "visible": 0,
        "status": "ok",
        "reason": "",
        "metrics": {"ast_depth": 8, "loc": 6},
        "solve_rate": None,
        "reward": -1.0,
        "attempts": [],
    }
    if kind == "code_f":
        task |= {"input": None, "output": None, "message": "Add up what is large enough."}
        task |= {
            "inputs": ["[1, 2]", "[7]", "[8, 8, 1]"],
            "outputs": ["2", "7", "16"],
            "visible": 2,
        }
    if i >= 6:
        status, reason = (
            ("form", "no program found") if i == 6 else ("exception", "NameError: name 'y'")
        )
        text = "f(xs) is <b>bold</b>" if status == "form" else None
        return task | {
            "status": status,
            "reason": reason,
            "text": text,
            "program": "" if text else task["program"],
        }
    right = rng.randint(0, 4)
    answers = (
        [{"thought": f"total = {result}", "answer": str(result), "score": 1.0, "count": right}]
        if right
        else []
    )
    answers.append(
        {
            "thought": f"total = {result + 1}\n<i>hm</i>",
            "answer": str(result + 1),
            "score": 0.0,
            "count": 5 - right,
        }
    )
    answers.append({"thought": "xs ...", "answer": None, "score": 0.0, "count": 1})
    reward = 1 - right / 6 if right else 0.0
    return task | {"solve_rate": right / 6, "reward": reward, "attempts": answers}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def beside_the_library(text):
    """A page without the script that is the same in every page."""
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def charts_in(text):
    """The charts of a page by name."""
    data = re.findall(
        r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(data[0])


class Page(HTMLParser):
    """Gathers the elements of a page, and checks that they are closed in order."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def count(self, tag, class_=None):
        found = [attrs for name, attrs in self.tags if name == tag]
        return len([a for a in found if class_ is None or class_ in (a.get("class") or "").split()])
