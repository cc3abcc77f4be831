"""A warm start: supervised steps on known tasks, so that a base writes some valid ones itself."""

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from evals.atomic import write_text
from evals.engine.streams import derive_seed, stream
from lora_evo import save_adapter
from selfplay.config.run_config import RunConfig
from selfplay.errors import RunDirectoryError, SelfplayError
from selfplay.learning.learner import Learner
from selfplay.population.opening import open_learner, open_sandbox, open_template
from selfplay.run.directory import lock
from selfplay.warmup.examples import Examples, make_examples
from selfplay.warmup.progress_files import Loss, load_progress, open_folder, save_progress
from selfplay.warmup.settings import WarmupSettings
from selfplay.warmup.supervised_step import mean_loss, supervised_step
from selfplay.warmup.task_rows import read_task_rows

RECORD = "warmup.json"
"""Settings and held-out losses, beside the finished adapter."""
Say = Callable[[str], None]


def warm_up(config: RunConfig, settings: WarmupSettings, out: Path, say: Say) -> list[Loss]:
    """Train an adapter for the members of such a run to start from; return the held-out losses.

    What is begun is in `OUT.part`; killed at any moment and called again, it goes on there and ends
    in the same bytes. Raises SelfplayError for data or settings that cannot be used.
    """
    work = out.with_name(f"{out.name}.part")
    if (out / RECORD).is_file():
        if work.is_dir():
            shutil.rmtree(work)
        say(f"{out} is finished already")
        return msgspec.convert(json.loads((out / RECORD).read_text())["losses"], list[Loss])
    if out.exists():
        raise RunDirectoryError(f"{out} exists and was not made by warmup; choose another --out")
    config = settings.single(config)
    chosen = _chosen(config, settings)
    if not settings.data.is_file():
        raise SelfplayError(f"there is no file {settings.data}; give JSON Lines of tasks as --data")
    open_folder(work, chosen)
    with closing(lock(work)):
        learner, engine = open_learner(config)
        try:
            examples = _examples(config, settings, engine.tokenizer, say)
            losses = _train(learner, examples, config, settings, work, say)
        finally:
            engine.close()
        _finish(learner, work, out, chosen, losses)
    shutil.rmtree(work)
    return losses


def _chosen(config: RunConfig, settings: WarmupSettings) -> dict[str, Any]:
    """What the result depends on, as plain as JSON."""
    learner = {f"learner.{name}": value for name, value in asdict(config.learner).items()}
    own = asdict(settings) | {"data": settings.data.name}
    del own["save_every"]
    rollout = config.rollout
    chosen = {
        "base": config.base,
        "template": config.template,
        "dtype": config.dtype,
        "kinds": rollout.kinds,
        "num_references": rollout.num_references,
        **own,
        **learner,
    }
    plain: dict[str, Any] = json.loads(json.dumps(chosen))
    return plain


def _examples(config: RunConfig, settings: WarmupSettings, tokenizer: Any, say: Say) -> Examples:
    with open_sandbox(config) as sandbox:
        found = read_task_rows(settings.data, config.rollout.kinds, sandbox)
    why = ", ".join(f"{count} {status}" for status, count in found.refused.most_common())
    say(f"{found.rows} rows give {len(found.tasks)} tasks" + (f"; refused: {why}" if why else ""))
    examples = make_examples(
        found.tasks,
        open_template(config),
        tokenizer,
        num_references=config.rollout.num_references,
        held_out=settings.held_out,
        max_length=settings.max_length,
        seed=settings.seed,
    )
    say(
        f"{len(examples.training)} examples to learn from, {len(examples.held_out)} held out; left "
        f"out: {examples.too_long} longer than {settings.max_length} tokens, {examples.unspoken} "
        "that the template cannot say"
    )
    return examples


def _train(
    learner: Learner,
    examples: Examples,
    config: RunConfig,
    settings: WarmupSettings,
    work: Path,
    say: Say,
) -> list[Loss]:
    reached = load_progress(work, learner)
    first, losses = reached or (0, [])
    budget = config.learner.micro_batch_tokens
    began = time.perf_counter()

    def measure(step: int) -> None:
        if examples.held_out:
            losses.append(Loss(step, mean_loss(learner, 0, examples.held_out, budget)))
            say(f"step {step}: held-out loss {losses[-1].held_out:.4f} nats a token")

    if reached:
        say(f"going on after step {first}")
    else:
        measure(0)
        save_progress(work, 0, learner, losses)
    for step in range(first + 1, settings.steps + 1):
        pairs = [examples.training[i] for i in _drawn(len(examples.training), settings, step)]
        factor = config.learner.schedule(step, settings.steps)
        loss = supervised_step(learner, 0, pairs, micro_batch_tokens=budget, lr_factor=factor)
        if step % settings.eval_every == 0 or step == settings.steps:
            measure(step)
        if step % settings.save_every == 0 or step == settings.steps:
            save_progress(work, step, learner, losses)
            left = (time.perf_counter() - began) / (step - first) * (settings.steps - step)
            say(f"step {step} of {settings.steps}: loss {loss:.4f}, {_minutes(left)} left")
    return losses


def _drawn(count: int, settings: WarmupSettings, step: int) -> list[int]:
    """Return the examples of a step: every epoch takes each once, in an order of its own."""
    found: list[int] = []
    for at in range((step - 1) * settings.batch_size, step * settings.batch_size):
        epoch, place = divmod(at, count)
        order = stream(derive_seed(settings.seed, "order", epoch)).permutation(count)
        found.append(int(order[place]))
    return found


def _finish(
    learner: Learner, work: Path, out: Path, chosen: dict[str, Any], losses: list[Loss]
) -> None:
    """Let the adapter appear, whole, with its record."""
    draft = work / "adapter"
    shutil.rmtree(draft, ignore_errors=True)
    save_adapter(learner.export(learner.members[0]), draft)
    record = chosen | {"losses": msgspec.to_builtins(losses)}
    write_text(draft / RECORD, json.dumps(record, indent=1))
    os.replace(draft, out)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
