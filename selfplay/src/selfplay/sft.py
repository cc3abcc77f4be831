"""Supervised fine-tuning on known tasks, so that a base writes some valid ones itself.

Each task is written in both roles, as a proposer and as a solver would, in the prompts of the run
to come. The adapter that results is what members of a run start from (`warm_start`).
"""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from code_verifier import CodeVerifierError, Proposal, Sandbox, Task, read_rows, strip_comments
from lora_evo import save_adapter, write_text
from lora_evo.model import (
    SupervisedLearner,
    TokenPair,
    choose_device,
    derive_seed,
    drawn,
    export_adapter,
    load_base_model,
    stack_adapters,
    stream,
    token_pair,
)
from selfplay.config import Config
from selfplay.directory import lock
from selfplay.errors import RunDirectoryError, SelfplayError
from selfplay.prompts.template import Template, template_named
from selfplay.verifier import open_sandbox

RECORD = "sft.json"
"""Settings and held-out losses, in the folder of the finished adapter."""
CHECKPOINT = "checkpoint.pt"
Say = Callable[[str], None]


@dataclass(frozen=True)
class SftSettings:
    """A supervised run; names as in transformers' TrainingArguments where it has them."""

    data: Path
    """Tasks, as JSON Lines."""
    steps: int = 200
    batch_size: int = 8
    """Examples a step."""
    learning_rate: float = 2e-4
    """At its highest: it rises over a twentieth of the steps and falls to a tenth."""
    max_length: int = 640
    """Longest prompt and completion, in tokens; longer examples are left out."""
    held_out: int = 24
    """Programs whose tasks are only measured."""
    eval_every: int = 50
    """Steps between two measurements."""
    save_every: int = 10
    """Steps between two checkpoints."""
    seed: int = 0


@dataclass(frozen=True)
class WorkedTask:
    """A valid task, and the thought that its row gives, if any."""

    task: Task
    thought: str = ""


@dataclass(frozen=True)
class Examples:
    """Pairs to learn from, and pairs of other programs that are only measured."""

    training: tuple[TokenPair, ...]
    held_out: tuple[TokenPair, ...]
    too_long: int
    """Left out: longer than the limit."""
    unspoken: int
    """Left out: the template cannot express them."""


def fine_tune(config: Config, settings: SftSettings, out: Path, say: Say) -> list[dict[str, float]]:
    """Train an adapter for the members of such a run to start from; return the held-out losses.

    A loss is `{"step", "held_out"}`, the mean cross-entropy of a completion token in nats, the
    base's at step 0. Work in progress is in `OUT.part`; killed at any moment and called again, it
    resumes there and ends in the same bytes. Raises SelfplayError for data or settings that cannot
    be used.
    """
    work = out.with_name(f"{out.name}.part")
    if (out / RECORD).is_file():
        shutil.rmtree(work, ignore_errors=True)
        say(f"{out} is finished already")
        losses: list[dict[str, float]] = json.loads((out / RECORD).read_text())["losses"]
        return losses
    if out.exists():
        raise RunDirectoryError(f"{out} exists and was not made by sft; choose another --out")
    if not settings.data.is_file():
        raise SelfplayError(f"there is no file {settings.data}; give JSON Lines of tasks as --data")
    learner_config = replace(
        config.learner,
        lr_scheduler_type="linear",
        min_lr_rate=0.1,
        warmup_steps=settings.steps // 20,
    )
    chosen = _chosen(config, settings)
    work.mkdir(parents=True, exist_ok=True)
    with closing(lock(work)):
        saved = _load(work, chosen)
        if config.threads:
            torch.set_num_threads(config.threads)
        base = load_base_model(config.base, choose_device(config.device), config.dtype)
        stack = stack_adapters(
            base.model,
            ["sft"],
            r=learner_config.r,
            lora_alpha=learner_config.lora_alpha,
            target_modules=learner_config.target_modules,
            seed=derive_seed(settings.seed, "adapters"),
        )
        learner = SupervisedLearner(
            stack,
            learning_rate=settings.learning_rate,
            betas=(learner_config.adam_beta1, learner_config.adam_beta2),
            eps=learner_config.adam_epsilon,
            weight_decay=learner_config.weight_decay,
            max_grad_norm=max(0.0, learner_config.max_grad_norm) or None,
            micro_batch_tokens=learner_config.micro_batch_tokens,
        )
        with open_sandbox(config) as sandbox:
            tasks = read_tasks(settings.data, config.rollout.kinds, sandbox, say)
        examples = make_examples(
            tasks,
            template_named(config.template, config.base),
            base.tokenizer,
            config.rollout.num_references,
            settings,
        )
        say(
            f"{len(examples.training)} examples to learn from, {len(examples.held_out)} held out; "
            f"left out: {examples.too_long} longer than {settings.max_length} tokens, "
            f"{examples.unspoken} that the template cannot express"
        )
        first, losses = 0, []
        if saved is not None:
            first, losses = saved["step"], saved["losses"]
            learner.load_state_dict(0, saved["learner"])
            say(f"resuming after step {first}")
        began = time.perf_counter()
        for step in range(first if saved is None else first + 1, settings.steps + 1):
            loss = 0.0
            if step:
                batch = drawn(len(examples.training), settings.batch_size, step, settings.seed)
                factor = learner_config.schedule(step, settings.steps)
                loss = learner.step(0, [examples.training[i] for i in batch], factor)
            last = step == settings.steps
            if examples.held_out and (step % settings.eval_every == 0 or last):
                losses.append({"step": step, "held_out": learner.mean_loss(0, examples.held_out)})
                say(f"step {step}: held-out loss {losses[-1]['held_out']:.4f} nats a token")
            if step % settings.save_every == 0 or last:
                state = {"step": step, "losses": losses, "learner": learner.state_dict(0)}
                _save(work, {"settings": chosen, **state})
                left = (
                    (time.perf_counter() - began) / max(1, step - first) * (settings.steps - step)
                )
                say(f"step {step} of {settings.steps}: loss {loss:.4f}, {left:.0f} s left")
        draft = work / "adapter"
        shutil.rmtree(draft, ignore_errors=True)
        save_adapter(export_adapter(stack, 0, config.base), draft)
        write_text(draft / RECORD, json.dumps({**chosen, "losses": losses}, indent=1))
        os.replace(draft, out)
    shutil.rmtree(work)
    return losses


def read_tasks(
    path: Path, kinds: tuple[str, ...], sandbox: Sandbox, say: Say = lambda text: None
) -> list[WorkedTask]:
    """Read JSON Lines of tasks: ours, or Absolute Zero's {"snippet", "input", "output"}.

    A row without `kind` serves both code_o and code_i, or code_f where it has `inputs`. Programs
    lose their comments; outputs are found by running them, whatever the row says. Raises
    SelfplayError, one line, for a file that is none or of which no row is valid.
    """
    try:
        proposals = [(row, _proposal(line, row)) for line, row in read_rows(path)]
    except (CodeVerifierError, OSError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        place = "" if str(path) in str(reason) else f"{path}: "
        raise SelfplayError(
            f"{place}{reason}; expected JSON Lines of tasks as `selfplay tasks` writes them, or of "
            '{"snippet", "input", "output"}'
        ) from error
    refused: Counter[str] = Counter()
    tasks: list[WorkedTask] = []
    verdicts = sandbox.validate_many([proposal for _, proposal in proposals])
    for (row, proposal), verdict in zip(proposals, verdicts, strict=True):
        if verdict.task is None:
            refused[str(verdict.status)] += 1
            continue
        both = not row.get("kind") and proposal.kind != "code_f"
        for kind in ("code_o", "code_i") if both else (proposal.kind,):
            if kind in kinds:
                tasks.append(WorkedTask(replace(verdict.task, kind=kind), row.get("thought") or ""))
    why = ", ".join(f"{count} {status}" for status, count in refused.most_common())
    if not tasks:
        raise SelfplayError(
            f"no row of {path} is a task of {', '.join(kinds)}: {len(proposals)} rows"
            + (f", {why}" if why else "")
        )
    say(f"{len(proposals)} rows give {len(tasks)} tasks" + (f"; refused: {why}" if why else ""))
    return tasks


def make_examples(
    tasks: Sequence[WorkedTask],
    template: Template,
    tokenizer: Any,
    num_references: int,
    settings: SftSettings,
) -> Examples:
    """Write each task in both roles, and set the tasks of some programs apart.

    Which programs, and which references a proposer is shown, follow from the seed. Raises
    SelfplayError when nothing is left.
    """
    held_out, max_length, seed = settings.held_out, settings.max_length, settings.seed
    programs = list(dict.fromkeys(worked.task.program for worked in tasks))
    if len(programs) <= held_out:
        raise SelfplayError(
            f"the file has {len(programs)} valid programs, and {held_out} are held out; "
            "expected more, so that some are left to learn from"
        )
    order = stream(derive_seed(seed, "held-out")).permutation(len(programs))
    apart = {programs[int(i)] for i in order[:held_out]}
    shown = [w.task for w in tasks if w.task.program not in apart and w.task.kind != "code_f"]
    pairs: dict[bool, list[TokenPair]] = {True: [], False: []}
    too_long = unspoken = 0
    for number, worked in enumerate(tasks):
        key = derive_seed(seed, "references", number)
        for written in _both_roles(worked, shown, template, num_references, key):
            if written is None:
                unspoken += 1
                continue
            pair = token_pair(tokenizer, written[0], written[1] + tokenizer.eos_token)
            if pair.length > max_length:
                too_long += 1
            else:
                pairs[worked.task.program in apart].append(pair)
    if not pairs[False] or (held_out and not pairs[True]):
        raise SelfplayError(
            f"{too_long} examples are longer than {max_length} tokens and {unspoken} cannot be "
            "expressed in the template; none are left: give a larger --max-length"
        )
    return Examples(tuple(pairs[False]), tuple(pairs[True]), too_long, unspoken)


def _both_roles(
    worked: WorkedTask, shown: Sequence[Task], template: Template, count: int, seed: int
) -> list[tuple[str, str] | None]:
    """Prompt and completion as a proposer and as a solver; None where the template has no words.

    The template reads back what it writes: a solution that is empty, or a proposal with another
    number of inputs than it asks for, would be an example of ill-formed text.
    """
    task, references = worked.task, [worked.task]
    if task.kind != "code_f":
        others = [other for other in shown if other.program != task.program]
        picked = (
            stream(seed).choice(len(others), min(count, len(others)), replace=False)
            if others
            else ()
        )
        references = [others[int(i)] for i in picked]
    written: list[tuple[str, str] | None] = [None, None]
    proposal = template.proposal_text(task, worked.thought)
    if references and template.parse_proposal(task.kind, references, proposal) is not None:
        written[0] = (template.propose_prompt(task.kind, references), proposal)
    answer = template.answer_text(task, worked.thought)
    if template.parse_answer(task, answer) is not None:
        written[1] = (template.solve_prompt(task), answer)
    return written


def _proposal(line: int, row: dict[str, Any]) -> Proposal:
    try:
        proposal = Proposal.from_row(row)
    except CodeVerifierError as error:
        raise CodeVerifierError(f"line {line}: {error}") from None
    try:
        return replace(proposal, program=strip_comments(proposal.parsed))
    except CodeVerifierError:
        return proposal


def _chosen(config: Config, settings: SftSettings) -> dict[str, Any]:
    """Return what the result depends on, as plain as JSON."""
    own = asdict(settings) | {"data": settings.data.name}
    del own["save_every"]
    chosen = {
        "base": config.base,
        "template": config.template,
        "dtype": config.dtype,
        "kinds": config.rollout.kinds,
        "num_references": config.rollout.num_references,
        **{f"learner.{name}": value for name, value in asdict(config.learner).items()},
        **own,
    }
    plain: dict[str, Any] = json.loads(json.dumps(chosen))
    return plain


def _save(work: Path, state: dict[str, Any]) -> None:
    torch.save(state, work / f"{CHECKPOINT}.new")
    os.replace(work / f"{CHECKPOINT}.new", work / CHECKPOINT)


def _load(work: Path, chosen: dict[str, Any]) -> dict[str, Any] | None:
    """Return the checkpoint, if any. Raises RunDirectoryError for one of other settings."""
    path = work / CHECKPOINT
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = torch.load(path)
    except Exception as error:  # whatever a damaged file makes it raise
        raise RunDirectoryError(f"{path} is damaged; remove {work} to start again") from error
    odd = [name for name in chosen if found["settings"].get(name) != chosen[name]]
    if odd:
        name = odd[0]
        raise RunDirectoryError(
            f"{work} was begun with {name} {found['settings'].get(name)!r}, and now it is "
            f"{chosen[name]!r}; to resume give the same settings, to start again remove the folder"
        )
    return found
