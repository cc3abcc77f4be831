"""A real small model learns within minutes: `make real-learning`.

    python benchmarks/small_model/learning.py OUT [--seeds 3] [--jobs 2] [--load-in-4bit]

Makes, in OUT, the small model (`small_model.py`) and for each seed: a start, which is a LoRA after
a few supervised steps on one-line programs (`easy_tasks.py`), enough to be well formed often;
`learning` from it, updates by policy gradient on other such tasks, twelve tasks times eight
attempts each, by a run's own engine, sandbox, rewards, advantages and learner; and, of the first
seed, `control`, the same at rate 0. With --load-in-4bit the base is in bitsandbytes' 4 bits.
Measured is the share of right answers to the 96 held-out tasks `easy_code_o`, two samples each,
anew every time; differences are paired by task. Stopped at any moment, the same command continues.
Results, as far as they are known: OUT/results.json.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from easy_tasks import EACH, FAMILIES, draw, held_out

from lora_evo import load_adapter, save_adapter
from lora_evo.files import appearing, write_text
from lora_evo.model import SupervisedLearner, TokenPair, derive_seed, drawn, token_pair
from selfplay import (
    Config,
    Run,
    load_preset,
    solve,
    template_named,
    training_samples,
)
from selfplay.learning.learner import MemberState
from selfplay.members.population import open_population
from selfplay.sampling.judge import open_sandbox
from selfplay.sampling.prompts import template_of
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.tasks.buffer import TaskBuffer
from selfplay.tasks.held_out import EASY, held_out_tasks

TEACHER, STUDENT, KIND = "t0", "s0", "code_o"
TASKS, ATTEMPTS, SAMPLES = 12, 8, 2
"""Tasks of an update, attempts at each, and samples of a held-out task."""
START_STEPS, START_EXAMPLES, START_RATE, RATE = 14, 6, 3e-4, 2e-4
ARMS = ("learning", "control")
MEANS = ("well_formed", "entropy", "minutes")
LESSONS = 84
"""Tasks of the supervised start, as many of each family."""


def main() -> None:
    """Make the model, then every part of every seed; print the table."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", type=Path, help="the small model, if it is made already")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--every", type=int, default=8, help="updates between two measurements")
    parser.add_argument("--threads", type=int, default=1, help="of one process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at the same time")
    parser.add_argument("--load-in-4bit", action="store_true", help="the base in 4 bits")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # what a process of ours is to do
    a = parser.parse_args()
    a.base = a.base or a.out / "smollm2-135m-instruct"
    if a.part:
        seed, _, name = a.part.partition("/")
        do_part(a, int(seed), name)
        return
    subprocess.run([sys.executable, Path(__file__).parent / "small_model.py", a.base], check=True)
    seeds = range(1, a.seeds + 1)
    arms = [(1, "learning"), (1, "control"), *((seed, "learning") for seed in seeds[1:])]
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(a.jobs) as pool:
            for parts in ([(seed, "start") for seed in seeds], arms):
                list(pool.map(partial(in_process, a), parts))
    finally:
        records = [read(a.out, seed, name) for name, seed in product(("start", *ARMS), seeds)]
        results = summary([part for part in records if part is not None])
        write_text(a.out / "results.json", json.dumps(results, indent=1))
        print(table(results))
        print(f"{(time.monotonic() - began) / 60:.0f} minutes since this command began")


def in_process(a: argparse.Namespace, part: tuple[int, str]) -> None:
    """Do a part in a process of its own; its failure is ours."""
    words = [sys.executable, __file__, *sys.argv[1:], "--part", f"{part[0]}/{part[1]}"]
    environment = os.environ | {"OMP_NUM_THREADS": str(a.threads)}
    subprocess.run(words, check=True, env=environment)


def settings(a: argparse.Namespace, seed: int) -> Config:
    """Return the configuration of a seed."""
    chosen = {
        "base": a.base,
        "load_in_4bit": a.load_in_4bit,
        "template": "azr",
        "threads": a.threads,
        "seed": seed,
        "teachers": 1,
        "students": 1,
        "learner.learning_rate": RATE,
        "learner.lr_scheduler_type": "constant",
        "rollout.kinds": "[code_o]",
        "rollout.proposals": TASKS,
        "rollout.num_generations": ATTEMPTS,
        "rollout.max_proposal_length": 60,
        "rollout.max_completion_length": 34,
        "rollout.max_rows": 96,
        "eval.same_tasks": 0,
    }
    return load_preset("smol", *(f"{key}={value}" for key, value in chosen.items()))


@contextmanager
def opened(a: argparse.Namespace, seed: int, home: Path) -> Iterator[Run]:
    """Open a teacher and a student, and the tasks that references are drawn from."""
    config = settings(a, seed)
    with (
        open_sandbox(config) as sandbox,
        open_population(config, template_of(config)) as population,
    ):
        proposals = [
            draw(i % len(FAMILIES), derive_seed(seed, "lesson", i), held_out())
            for i in range(LESSONS)
        ]
        verdicts = sandbox.validate_many(proposals)
        lessons = [v.task for v in verdicts if v.task is not None]
        yield Run(
            config=config,
            directory=home,
            population=population,
            sandbox=sandbox,
            seed_tasks=lessons,
            held_out=(),
            buffer=TaskBuffer(config.rollout.buffer_tasks, lessons),
            born={},
        )


def do_part(a: argparse.Namespace, seed: int, name: str) -> None:
    """Do what is left of a part of a seed."""
    home = a.out / f"seed-{seed}"
    home.mkdir(parents=True, exist_ok=True)
    record = read(a.out, seed, name) or fresh(seed, name)
    if name == "start" and not record["measured"]:
        with opened(a, seed, home) as run:
            start(run, home, record)
    if name != "start" and len(record["updates"]) < a.updates:
        with opened(a, seed, home) as run:
            learn(run, home, record, a.updates, a.every)


def fresh(seed: int, part: str) -> dict[str, Any]:
    """Return what is found of a part before it begins."""
    return {"seed": seed, "part": part, "minutes": 0.0, "updates": [], "measured": []}


def start(run: Run, home: Path, record: dict[str, Any]) -> None:
    """Measure the untouched model; take the student's supervised steps, measure and save it."""
    clock = time.monotonic()
    if run.config.seed == 1:
        record["measured"].append(measure(run, None, 0))  # the same for every seed
    config, tokenizer = run.config, run.population.engine.tokenizer
    template = template_named(config.template, config.base)
    lessons = [
        token_pair(
            tokenizer,
            template.solve_prompt(t),
            template.kind(t.kind).answer_text(t) + tokenizer.eos_token,
        )
        for t in run.seed_tasks
    ]
    supervised_steps(run, lessons)
    save_adapter(run.population.export(STUDENT), home / "adapter", overwrite=True)
    record["measured"].append(measure(run, STUDENT, 0))
    record["minutes"] = (time.monotonic() - clock) / 60
    record["measured"] = [{"minutes": record["minutes"], **row} for row in record["measured"]]
    write(home, record)


def supervised_steps(run: Run, lessons: Sequence[TokenPair]) -> None:
    """Let the student take START_STEPS on the lessons, at a rate that falls to 0.4 of its start."""
    learner = SupervisedLearner(
        run.population.learner.adapters,
        learning_rate=START_RATE,
        max_grad_norm=1.0,
        micro_batch_tokens=run.config.learner.micro_batch_tokens,
    )
    place = run.population.members.index(STUDENT)
    for step in range(START_STEPS):
        chosen = drawn(len(lessons), START_EXAMPLES, step + 1, run.seed("start", STUDENT))
        factor = 1.0 - 0.6 * step / (START_STEPS - 1)
        loss = learner.step(place, [lessons[i] for i in chosen], factor)
        say(run, f"supervised step {step + 1}: loss {loss:.3f}")


def learn(run: Run, home: Path, record: dict[str, Any], updates: int, every: int) -> None:
    """Take the updates that are left, each kept as soon as it is done."""
    path = home / f"{record['part']}.pt"
    population, learner = run.population, run.population.learner
    if path.exists():
        state = torch.load(path, weights_only=True)
        record |= state["found"]
        for place, parts in enumerate(state["members"]):
            learner.load_member(place, MemberState(*parts))
    clock = time.monotonic() - 60 * record["minutes"]
    if not path.exists():
        population.replace(STUDENT, load_adapter(home / "adapter"), STUDENT)
    factor = 0.0 if record["part"] == "control" else 1.0
    for update in range(len(record["updates"]) + 1, updates + 1):
        began = time.monotonic()
        solved, _ = solve(run, given_tasks(run, update), update)
        samples = [s for s in training_samples(solved, run.config) if s.phase == "solve"]
        stats = population.update(samples, factor)
        row = {"update": update, **described(solved)}
        row["entropy"] = {member: s.entropy for member, s in stats.items()}
        row["grad_norm"] = {member: s.grad_norm for member, s in stats.items()}
        row["seconds"] = time.monotonic() - began
        record["updates"].append(row)
        if update % every == 0 or update == updates:
            record["measured"].append(measure(run, STUDENT, update))
        record["minutes"] = (time.monotonic() - clock) / 60
        record["measured"] = [{"minutes": record["minutes"], **row} for row in record["measured"]]
        states = [learner.member_state(place) for place in range(len(learner.members))]
        members = [(s.name, dict(s.tensors)) for s in states]
        with appearing(path) as draft:
            torch.save({"found": record, "members": members}, draft)
        write(home, record)
        say(run, json.dumps(row))


def given_tasks(run: Run, update: int) -> list[Proposed]:
    """Return one task of each family, none of them held out, as if a teacher had written them."""
    apart = held_out()
    proposals = [draw(i, run.seed(update, "task", i), apart) for i in range(len(FAMILIES))]
    return [
        Proposed(i, f"{update}-{i}", TEACHER, STUDENT, KIND, (), 0, task=verdict.task)
        for i, verdict in enumerate(run.sandbox.validate_many(proposals))
    ]


def described(solved: Sequence[Proposed]) -> dict[str, Any]:
    """Return what an update's attempts were like."""
    attempts = [a for p in solved for a in p.judged]
    return {
        "right": fmean([a.score >= 1.0 for a in attempts] or [0.0]),
        "well_formed": fmean([a.answer is not None for a in attempts] or [0.0]),
    }


def measure(run: Run, member: str | None, update: int) -> dict[str, Any]:
    """Let a member (None: the frozen base) attempt every held-out task."""
    tasks = held_out_tasks((EASY,), len(FAMILIES) * EACH)
    pairs = [(task, i) for task in tasks for i in range(SAMPLES)]
    attempts = [
        Attempt(member, task, run.seed("held-out", update, task.id, i), 1.0) for task, i in pairs
    ]
    run.attempt(attempts)
    logprobs = [p for a in attempts for p in a.rollout.logprobs]
    right = [a.score >= 1.0 for a in attempts]
    row = {
        "update": update,
        "member": member,
        "right": fmean(right),
        "well_formed": fmean(a.answer is not None for a in attempts),
        "entropy": -fmean(logprobs),
        "rates": [fmean(right[i : i + SAMPLES]) for i in range(0, len(right), SAMPLES)],
    }
    say(run, ", ".join(f"{key} {value}" for key, value in row.items() if key != "rates"))
    return row


def summary(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each arm and measured update: means over seeds, and the gain by task.

    standard_error: of the gain, over families, whose tasks are right or wrong together. families:
    the share of right answers in each.
    """
    starts = {p["seed"]: p["measured"][-1]["rates"] for p in parts if p["part"] == "start"}
    rows: dict[tuple[str, int], list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for part in parts:
        for row in part["measured"]:
            name = part["part"] if row["member"] else "untouched"
            rows[name, row["update"]].append((part["seed"], row))
    lines = []
    for (name, update), measured in rows.items():
        by_seed = [np.subtract(row["rates"], starts[seed]) for seed, row in measured]
        gains = np.mean(by_seed, axis=0)
        row = {"arm": name, "updates": update, "seeds": [seed for seed, _ in measured]}
        row |= {"right": [figures["right"] for _, figures in measured], "gain": float(gains.mean())}
        of_gain = gains.reshape(-1, EACH).mean(axis=1)
        row["standard_error"] = float(of_gain.std(ddof=1)) / math.sqrt(len(of_gain))
        row |= {key: fmean(figures[key] for _, figures in measured) for key in MEANS}
        of_family = np.mean([figures["rates"] for _, figures in measured], axis=0).reshape(-1, EACH)
        names = [returned for _, returned in FAMILIES]
        row["families"] = dict(zip(names, of_family.mean(axis=1).tolist(), strict=True))
        lines.append(row)
    return lines


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    head = ("arm", "updates", "right, by seed", "mean", "gain on the start", "well formed")
    head = (*head, "entropy", "minutes")
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for r in results:
        each = " ".join(f"{right:.3f}" for right in r["right"])
        gain = f"{r['gain']:+.3f} ± {r['standard_error']:.3f}" if r["updates"] else ""
        lines.append(
            f"| {r['arm']} | {r['updates']} | {each} | {fmean(r['right']):.3f} | {gain} | "
            f"{r['well_formed']:.2f} | {r['entropy']:.2f} | {r['minutes']:.0f} |"
        )
    return "\n".join(lines)


def read(out: Path, seed: int, part: str) -> dict[str, Any] | None:
    """Return what is kept of a part; None before its first measurement."""
    path = out / f"seed-{seed}" / f"{part}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def write(home: Path, record: dict[str, Any]) -> None:
    """Keep what is found of a part."""
    write_text(home / f"{record['part']}.json", json.dumps(record, indent=1))


def say(run: Run, text: str) -> None:
    """Print a line about a seed."""
    print(f"{run.directory.name}: {text}", flush=True)


if __name__ == "__main__":
    main()
