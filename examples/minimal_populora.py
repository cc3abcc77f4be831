"""PopuLoRA with a loop of your own: two teachers and two students on the built-in nano model.

    python examples/minimal_populora.py [--steps 3] [--seed 0]

Every name comes from a public door. `main` is the whole loop: take out, replace or add a phase.
`selfplay train` does the same with checkpoints, evaluation, reports and workers.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from code_verifier import Proposal, Sandbox, Task
from league import League, Outcome, Pair
from lora_evo import distance, mutate
from lora_evo.model import HFEngine, Rollout, TokenRequest, derive_seed, load_base_model, stream
from selfplay import (
    Learner,
    TrainingSample,
    load_preset,
    seed_tasks,
    student_advantages,
    student_reward,
    teacher_advantages,
    teacher_reward,
    template_named,
)

TEACHERS, STUDENTS = ["t0", "t1"], ["s0", "s1"]
KINDS = ("code_o", "code_i")
PROPOSALS, ATTEMPTS = 4, 4
NANO = template_named("nano", "nano")
"""Writes the prompts of the built-in model, and reads its proposals and answers."""


class Members:
    """All adapters on one frozen base: the learner and the engine share their parameters."""

    def __init__(self, seed: int) -> None:
        base = load_base_model("nano", torch.device("cpu"), "float32")
        settings = load_preset("nano").learner
        names, roles = TEACHERS + STUDENTS, ["teacher"] * 2 + ["student"] * 2
        self.learner = Learner(base.model, 0, names, settings, seed=seed, roles=roles)
        self.engine = HFEngine(self.learner.adapters, base.tokenizer, max_rows=256)

    def write(
        self, asked: Sequence[tuple[str, str, int]], tokens: int
    ) -> list[tuple[Rollout, str]]:
        """Sample (member, prompt, seed) each; return what was written, and its text."""
        encode = self.engine.tokenizer.encode
        requests = [
            TokenRequest(member, tuple(encode(prompt, add_special_tokens=False)), tokens, 1.0, seed)
            for member, prompt, seed in asked
        ]
        return [(r, self.engine.completion(r).text) for r in self.engine.rollouts(requests)]


def propose(
    members: Members, pair: Pair, references: Sequence[Task], seed: int
) -> list[tuple[str, Rollout, Proposal | None]]:
    """Let the teacher write tasks, each after one reference task; None is no proposal."""
    shown, asked = [], []
    for kind in KINDS:
        for i in range(PROPOSALS):
            own = derive_seed(seed, pair.teacher, kind, i)
            shown.append((kind, references[int(stream(own).integers(len(references)))]))
            asked.append((pair.teacher, NANO.propose_prompt(kind, [shown[-1][1]]), own))
    return [
        (kind, rollout, NANO.parse_proposal(kind, [reference], text))
        for (kind, reference), (rollout, text) in zip(shown, members.write(asked, 112), strict=True)
    ]


def verify(
    sandbox: Sandbox, written: Sequence[tuple[str, Rollout, Proposal | None]]
) -> list[Task | None]:
    """Return the tasks that proposals became; None for those that the sandbox refuses."""
    verdicts = iter(sandbox.validate_many([p for _, _, p in written if p is not None]))
    return [None if p is None else next(verdicts).task for _, _, p in written]


def solve(
    members: Members, sandbox: Sandbox, student: str, task: Task, seed: int
) -> list[tuple[Rollout, str | None, float]]:
    """Let the student attempt a task; return each attempt with its answer and its score."""
    prompt = NANO.solve_prompt(task)
    asked = [(student, prompt, derive_seed(seed, task.program, i)) for i in range(ATTEMPTS)]
    written = [(r, NANO.parse_answer(task, text)) for r, text in members.write(asked, 160)]
    grades = iter(sandbox.grade_many([(task, answer) for _, answer in written if answer]))
    return [(r, answer, next(grades).score if answer else 0.0) for r, answer in written]


def sample(
    member: str, role: str, kind: str, task: str, rollout: Rollout, reward: float
) -> TrainingSample:
    """Return a completion with its reward."""
    return TrainingSample(
        member=member,
        prompt_ids=rollout.prompt_ids,
        completion_ids=rollout.completion_ids,
        logprobs=rollout.logprobs,
        truncated=rollout.finish_reason == "length",
        role=role,
        kind=kind,
        task=task,
        reward=reward,
    )


def evolve(members: Members, league: League, seed: int) -> str:
    """Replace the weakest student by a mutated copy of the strongest; say who by whom."""
    (weakest,) = league.select("student", 1)
    best = league.leaderboard("student")[0].member
    if best == weakest:
        return "nobody"
    child = f"s{int(max(league.members('student'), key=lambda name: int(name[1:]))[1:]) + 1}"
    parent = members.learner.export(best)
    adapter = mutate(parent, "svd_structured", seed=seed, strength=0.15)
    members.learner.replace(weakest, adapter, child)
    league.replace(weakest, child, [best], "svd_structured")
    return f"{weakest} by {child}, {distance(parent, adapter):.2f} away from {best}"


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    members = Members(arguments.seed)
    references = seed_tasks("nano", 64, arguments.seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        League(folder, teachers=TEACHERS, students=STUDENTS) as league,
        Sandbox(workers=2) as sandbox,
    ):
        for step in range(1, arguments.steps + 1):
            teaching: list[TrainingSample] = []
            solving: list[TrainingSample] = []
            for pair in league.pair(step):
                seed = derive_seed(arguments.seed, step)
                written = propose(members, pair, references, seed)
                tasks = verify(sandbox, written)
                rates = []
                for i, ((kind, rollout, _), task) in enumerate(zip(written, tasks, strict=True)):
                    name = f"{pair.teacher}-{pair.student}-{i}"
                    rate = 0.0
                    if task is not None:
                        attempts = solve(members, sandbox, pair.student, task, seed)
                        rate = fmean(score >= 1.0 for _, _, score in attempts)
                        rates.append(rate)
                        solving += [
                            sample(
                                pair.student, "solve", kind, name, attempt,
                                student_reward(answer is not None, score),
                            )
                            for attempt, answer, score in attempts
                        ]  # fmt: skip
                    reward = teacher_reward(task is not None, rate)
                    teaching.append(sample(pair.teacher, "propose", kind, name, rollout, reward))
                outcome = Outcome(
                    tasks=len(tasks),
                    valid=len(rates),
                    attempts=ATTEMPTS * len(rates),
                    solved=round(ATTEMPTS * sum(rates)),
                    unsolved=rates.count(0.0),
                )
                league.record(pair, outcome)
                solved = f"solves {fmean(rates):.0%}" if rates else "has nothing to solve"
                print(f"step {step}: {len(rates)} tasks by {pair.teacher}, {pair.student} {solved}")
            advantages = teacher_advantages(teaching) + student_advantages(solving)
            samples = zip(teaching + solving, advantages, strict=True)
            members.learner.update([replace(s, advantage=a) for s, a in samples])
            if step % 2 == 0:
                print(f"step {step}: {evolve(members, league, arguments.seed + step)}")
        for role in ("teacher", "student"):
            for row in league.leaderboard(role):
                print(f"{row.member}: rating {row.mu:.1f} ± {row.sigma:.1f}")


if __name__ == "__main__":
    main()
