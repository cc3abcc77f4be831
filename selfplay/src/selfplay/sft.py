"""Supervised fine-tuning on known tasks, so that a base learns to write valid ones.

Each task gives two examples in the prompts of the later run: its proposal and its solution. Members
of a run start from the resulting adapter (`warm_start`).
"""

import io
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from code_verifier import Task
from lora_evo import Lineage, adapter_hash, save_adapter
from lora_evo.files import appearing, check_output, write_text
from lora_evo.model import (
    BaseModel,
    SupervisedLearner,
    TokenPair,
    derive_seed,
    drawn,
    export_adapter,
    stack_adapters,
    token_pair,
)
from selfplay.config import Config
from selfplay.errors import RunDirectoryError, SelfplayError
from selfplay.files.layout import hash_file, lock
from selfplay.files.record import flatten
from selfplay.members.population import load_base
from selfplay.sampling.judge import open_sandbox
from selfplay.sampling.prompts import require_faithful, template_of
from selfplay.seeds import Say, Worked, read_tasks
from selfplay.tasks.buffer import shuffled
from selfplay.tasks.held_out import equal_task, guard_of
from selfplay.tasks.template import HALF, ControlTokens, Template

RECORD, CHECKPOINT = "sft.json", "checkpoint.pt"
"""Settings and held-out losses, in the adapter's folder; and the checkpoint, in `OUT.part`."""
MOST_HELD_OUT = 24
"""Default number of held-out programs, at most a fifth of all."""
SAVE_EVERY = 10
"""Steps between two checkpoints."""


def fine_tune(
    config: Config,
    data: Path,
    out: Path,
    say: Say,
    *,
    batch_size: int,
    learning_rate: float,
    held_out: int | None = None,
) -> list[dict[str, float]]:
    """Train an adapter for the members of such a run to start from; return the held-out losses.

    Takes `config.steps` steps; the learning rate rises over a twentieth of them and falls to a
    tenth. A loss is `{"step", "held_out"}`, the mean cross-entropy of a completion token in nats:
    of the base at step 0, then at each quarter. If it is killed, the same call resumes it, and the
    result has the same bytes. Raises SelfplayError for data or settings that cannot be used, or are
    others than those that `out` was made with.
    """
    out = Path(os.path.realpath(out))
    work = out.with_name(f"{os.fsdecode(os.fsencode(out.name)[:250])}.part")
    settings = {**asdict(config), "data": data.name, "batch_size": batch_size}
    settings |= {"learning_rate": learning_rate, "held_out": held_out}
    settings |= {"data_sha256": hash_file(data)} if data.is_file() else {}
    settings = json.loads(json.dumps(settings, default=str))
    if (out / RECORD).is_file():
        state: dict[str, Any] = json.loads((out / RECORD).read_text())
        before, now = flatten(state["settings"]), flatten(settings)
        if odd := [key for key in now if before.get(key, now[key]) != now[key]]:
            raise RunDirectoryError(f"{out} was made with another {odd[0]}; choose another --out")
        shutil.rmtree(work, ignore_errors=True)
        say(f"{out} is finished already")
        return list(state["losses"])
    if out.exists():
        kind = "exists and was not made by sft" if out.is_dir() else "is a file"
        raise RunDirectoryError(f"{out} {kind}; choose another --out, a new directory")
    check_output(out, folder=True)
    template = template_of(config)
    kinds = [kind.name for kind in template.in_play]
    with open_sandbox(config) as sandbox:
        tasks = read_tasks(data, template, kinds, sandbox, say)
    tasks = _without_held_out(tasks, config, say)
    fresh = {"settings": settings, "step": -1, "losses": []}
    state = _resume(work / CHECKPOINT, fresh)
    tokenizer, learner = _open_learner(config, learning_rate)
    require_faithful(tokenizer, config.base)
    examples = make_examples(tasks, config, tokenizer, say, held_out)
    work.mkdir(parents=True, exist_ok=True)
    with closing(lock(work)):
        _train(learner, config, examples, batch_size, state, work, say)
        draft = work / "adapter"
        shutil.rmtree(draft, ignore_errors=True)
        adapter = export_adapter(learner.adapters, 0, config.base)
        bits = BaseModel.quantization_of(config.base, config.load_in_4bit)
        founder = Lineage.founder("sft", config.seed, adapter_hash(adapter))
        save_adapter(adapter, draft, lineage=replace(founder, quantization=bits))
        record = {name: state[name] for name in ("settings", "losses")}
        write_text(draft / RECORD, json.dumps(record, indent=1))
        os.replace(draft, out)
    shutil.rmtree(work)
    return list(state["losses"])


def _open_learner(config: Config, learning_rate: float) -> tuple[Any, SupervisedLearner]:
    """Return the base's tokenizer, and a learner of one adapter on the base."""
    base = load_base(replace(config, engine="hf"))
    stack = stack_adapters(
        base.model,
        ["sft"],
        r=config.learner.r,
        lora_alpha=config.learner.lora_alpha,
        target_modules=config.learner.target_modules,
        seed=derive_seed(config.seed, "adapters"),
    )
    return base.tokenizer, SupervisedLearner(
        stack,
        learning_rate=learning_rate,
        max_grad_norm=config.learner.max_grad_norm,
        micro_batch_tokens=config.learner.micro_batch_tokens,
        chunk=config.learner.logits_chunk_tokens,
        checkpointing=config.learner.gradient_checkpointing,
    )


def _train(
    learner: SupervisedLearner,
    config: Config,
    examples: tuple[Sequence[TokenPair], Sequence[TokenPair]],
    batch_size: int,
    state: dict[str, Any],
    work: Path,
    say: Say,
) -> None:
    """Do the remaining steps, update the state, and save it in `work`."""
    (training, measured), steps = examples, config.steps
    if "learner" in state:
        learner.load_state_dict(0, state["learner"])
        say(f"resuming after step {state['step']}")
    rates = replace(
        config.learner, lr_scheduler_type="linear", min_lr_rate=0.1, warmup_steps=steps // 20
    )
    for step in range(state["step"] + 1, steps + 1):
        if step:
            batch = [training[i] for i in drawn(len(training), batch_size, step, config.seed)]
            loss = learner.step(0, batch, rates.schedule(step, steps))
            say(f"step {step} of {steps}: loss {loss:.4f}")
        if measured and (step % max(1, steps // 4) == 0 or step == steps):
            state["losses"].append({"step": step, "held_out": learner.mean_loss(0, measured)})
            say(f"step {step}: held-out loss {state['losses'][-1]['held_out']:.4f}")
        if step % SAVE_EVERY == 0 or step == steps:
            state |= {"step": step, "learner": learner.state_dict(0)}
            buffer = io.BytesIO()  # torch's own errors do not name a full disk
            torch.save(state, buffer)
            with appearing(work / CHECKPOINT) as draft:
                draft.write_bytes(buffer.getbuffer())


def _without_held_out(tasks: Sequence[Worked], config: Config, say: Say) -> list[Worked]:
    """Return the tasks but those on which a run of this configuration is measured."""
    guard = guard_of(config.eval.held_out)
    pairs = [(task, row) for task, row in tasks if equal_task(task, guard) is None]
    if not pairs:
        raise SelfplayError(
            f"all {len(tasks)} tasks are held-out ones, on which members are measured; give "
            "others, or measure on others: --set eval.held_out=FILE"
        )
    if len(pairs) < len(tasks):
        say(f"{len(tasks) - len(pairs)} of the {len(tasks)} tasks are held-out ones: left out")
    return pairs


def make_examples(
    tasks: Sequence[Worked], config: Config, tokenizer: Any, say: Say, held_out: int | None
) -> tuple[list[TokenPair], list[TokenPair]]:
    """Return training examples, and held-out examples of other programs; two for each task.

    The seed chooses the held-out programs and the references of proposals. Examples that are longer
    than `micro_batch_tokens`, or that the template cannot express, are left out. Raises
    SelfplayError if none is left.
    """
    if tokenizer.eos_token is None:
        raise SelfplayError(
            f"the tokenizer of {config.base} names no end token, so that no example would have an "
            "end; expected eos_token in its tokenizer_config.json"
        )
    template, longest = template_of(config), config.learner.micro_batch_tokens
    control = ControlTokens(tokenizer, template.marks)
    programs = list(dict.fromkeys(task.program for task, _ in tasks))
    if held_out is None:
        held_out = min(MOST_HELD_OUT, len(programs) // 5)
    excluded = set(shuffled(programs, derive_seed(config.seed, "held-out"))[:held_out])
    pool = [task for task, _ in tasks if task.program not in excluded]
    training, measured = list[TokenPair](), list[TokenPair]()
    too_long = inexpressible = 0
    for number, (task, row) in enumerate(tasks):
        references, texts = _references(task, pool, template, config, number), []
        thought = str(row.get("thought") or "")
        if not (control.why_not(task) or HALF.search(thought)):
            texts = _prompts_and_completions(template, task, thought, references)
        inexpressible += 2 - len(texts)
        for prompt, completion in texts:
            completion += tokenizer.eos_token
            pair = token_pair(tokenizer, prompt, completion, special=template.start_token)
            too_long += pair.length > longest
            if pair.length <= longest:
                (measured if task.program in excluded else training).append(pair)
    summary = (
        f"{len(programs)} programs, {len(excluded)} held out: {len(training)} examples to learn "
        f"from, {len(measured)} held out, {too_long} left out as longer than {longest} tokens, "
        f"{inexpressible} that the template cannot express"
    )
    if not training or (excluded and not measured):
        raise SelfplayError(
            f"{summary}; give more tasks, a larger learner.micro_batch_tokens or less --held-out"
        )
    say(summary)
    return training, measured


def _references(
    task: Task, pool: Sequence[Task], template: Template, config: Config, number: int
) -> list[Task]:
    """Return the references of a task's proposal: the task itself if they share the program."""
    kind = template.kind(task.kind)
    if kind.keeps_program:
        return [task]
    candidates = [t for t in pool if t.program != task.program and t.kind in kind.shows]
    seed = derive_seed(config.seed, "references", number)
    return shuffled(candidates, seed)[: config.rollout.num_references]


def _prompts_and_completions(
    template: Template, task: Task, thought: str, references: Sequence[Task]
) -> list[tuple[str, str]]:
    """Return prompt and completion of both roles that the template can read back."""
    kind, texts = template.kind(task.kind), []
    proposal, answer = kind.proposal_text(task, thought), kind.answer_text(task, thought)
    if references and kind.parse_proposal(references, proposal) is not None:
        texts.append((template.propose_prompt(task.kind, references), proposal))
    if kind.parse_answer(task, answer) is not None:
        texts.append((template.solve_prompt(task), answer))
    return texts


def _resume(path: Path, fresh: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoint's state, whose settings must be the same, or the fresh one."""
    if not path.exists():
        return fresh
    state: dict[str, Any] = torch.load(path)
    before, now = flatten(state["settings"]), flatten(fresh["settings"])
    if odd := [key for key in now if key not in before or before[key] != now[key]]:
        how = f"with another {odd[0]}" if odd[0] in before else f"by a selfplay without {odd[0]}"
        raise RunDirectoryError(
            f"{path.parent} was begun {how}; give the same settings to resume, or remove it to "
            "start again"
        )
    return state
