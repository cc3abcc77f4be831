"""Tasksets of `verifiers` as benchmarks: `verifiers:TASKSET`, or `verifiers:TASKSET=FILE.toml` with
values of the taskset's configuration. A response is right if its reward is at least 1, or the
taskset's MAX_REWARD."""

import tomllib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from code_verifier import Tasksets, ordered_map
from evals.errors import EvalsError
from evals.question import Benchmark, Grading, Pairs, Question, SampleVerdict
from evals.recipes import Recipe, Template

MAX_TOKENS, WALL_S = 2048, 30.0
"""Of a response, and seconds for its rewards."""


def load_taskset(name: str, file: str = "") -> Benchmark:
    """Load the taskset behind `Tasksets.PREFIX` in a name. file: TOML; its `limit` takes the first
    tasks. Raises EvalsError in one line for what cannot be used."""
    try:
        config = tomllib.loads(Path(file).read_text(encoding="utf-8")) if file else {}
        limit = config.pop("limit", None)
        sources = [{"name": name, "config": config, "limit": limit}]
        with Tasksets(sources) as tasksets:
            tasks = [task for task, _ in tasksets.tasks[0]]
    except (OSError, ValueError) as error:
        raise EvalsError(f"{file}: {error}" if file else str(error)) from None

    def grade(pairs: Pairs, how: Grading) -> Iterator[SampleVerdict]:
        with Tasksets(sources, how.workers, WALL_S) as tasksets:
            answers = ((question.problem, sample.response) for question, sample in pairs)
            grades = ordered_map(lambda pair: tasksets.grade(*pair), answers, how.workers)
            for (question, sample), result in zip(pairs, grades, strict=True):
                right, answer = result.score >= 1.0, sample.response or None
                verdict = right if result.judged else None, result.reason, answer
                yield SampleVerdict.on(question, sample, *verdict, score=result.score)

    questions = (Question(t.id, {"prompt": t.input or "", "system": t.message}, t) for t in tasks)
    template = Template("{prompt}", "chat", MAX_TOKENS, "the taskset", system="{system}")
    parts = (str(sorted(config.items())), *(str(task.output) for task in tasks))
    digest = blake2b("".join(parts).encode(), digest_size=16)
    return Benchmark(
        name, "a taskset of verifiers", tuple(questions), grade,
        Recipe("taskset", "the taskset's own turns", {name: template}),
        f"blake2b:{digest.hexdigest()}",
    )  # fmt: skip
