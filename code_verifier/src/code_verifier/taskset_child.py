"""The process that owns tasksets of `verifiers` (0.4): it loads them, and scores replies.

Standard input has a line of JSON for each taskset, and then for each reply, as `answer` takes it.
What a taskset prints goes nowhere.
"""

import asyncio
import copy
import faulthandler
import importlib
import inspect
import json
import math
import os
import queue
import random
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any, TextIO

from code_verifier.errors import CodeVerifierError
from code_verifier.tasks import Task

Row = dict[str, Any]
_tasks: dict[str, tuple[Any, float | None]] = {}
"""Tasks by the hash of their data, and the largest reward that their taskset names."""


def serve() -> None:
    """Answer until the input ends, which ends the process."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    while True:
        answers.write(json.dumps(answer(json.loads(lines.get()))) + "\n")


def _read(requests: TextIO, lines: "queue.SimpleQueue[str]") -> None:
    """Pass requests on. Their end, as when the parent is killed, ends whatever a taskset does."""
    for line in requests:
        lines.put(line)
    os._exit(0)


def answer(row: Row) -> Row:
    """Load a taskset, {"name", "config", "limit"}, or score a reply, {"key", "reply", "wall_s"};
    the process ends if the score takes longer.

    Returns {"tasks"} or {"score", "reason"}; {"error"}, one line, if that cannot be.
    """
    random.seed(str(row))
    try:
        return _score(**row) if "key" in row else {"tasks": list(_load(**row))}
    except CodeVerifierError as error:
        return {"error": str(error)}
    except BaseException as error:  # a taskset may raise anything
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        missing = getattr(error, "name", None) in ("verifiers", "verifiers.v1")
        return {"error": text + "; type: pip install 'verifiers>=0.4'" * missing}
    finally:
        faulthandler.cancel_dump_traceback_later()


def _load(name: str, config: Row, limit: int | None) -> Iterator[Row]:
    import verifiers.v1 as vf
    from verifiers.v1.utils.generic import concrete_type
    from verifiers.v1.utils.loaders import environment_class, taskset_class

    home, colon, path = name.partition(":")
    cls: Any = getattr(importlib.import_module(home), path, 0) if colon else taskset_class(name)
    if vf.Taskset not in getattr(cls, "__mro__", ()):
        raise CodeVerifierError(
            f"{home} has no vf.Taskset {path}; expected an installed id or module:Class"
        )
    settings: Any = concrete_type(cls, vf.TasksetConfig, origin=vf.Taskset) or vf.TasksetConfig
    taskset: Any = cls(settings.model_validate({**config, "id": home}))
    if limit is None and not taskset.bounded:
        raise CodeVerifierError("it has no end; set a limit, such as rollout.taskset_limit=1000")
    tasks: list[Any] = list(islice(taskset, limit))
    if not tasks:
        raise CodeVerifierError("it has no task")
    first, most = tasks[0], getattr(taskset, "MAX_REWARD", None)
    rewards, judges = first.hooks("reward"), [*first.config.judges]
    judges += [value for value in vars(first.config).values() if isinstance(value, vf.JudgeConfig)]
    needy = [n for n in ("setup", "finalize") if getattr(type(first), n) is not getattr(vf.Task, n)]
    pairs = [(f.__name__, p) for f in rewards for p in inspect.signature(f).parameters.values()]
    needy += [name for name, p in pairs if p.name == "runtime" and p.default is p.empty]
    needy += ["its container"] * first.NEEDS_CONTAINER
    tools = [*cls.toolsets(taskset.config), *first.toolsets(first.config)]
    environment = environment_class(home) is not vf.SingleAgentEnv
    faults = {
        "it has an environment of its own; expected tasks of one turn": environment,
        "it has tools; expected tasks of one turn without any": tools,
        f"{', '.join(needy)} needs a runtime; expected rewards of task and trace alone": needy,
        "it has judges, which need a server; expected functions": judges,
        "its tasks have no @vf.reward": not rewards,
    }
    for fault in (text for text, is_true in faults.items() if is_true):
        raise CodeVerifierError(fault)
    for task in tasks:
        system, prompt = _texts(task.data)
        _tasks[task.hash] = task, most
        texts = {"message": system, "input": prompt, "output": task.hash}
        row = Task("taskset", "", id=f"{name}/{task.data.idx}", **texts).to_row()
        yield row | {"solve_rate": getattr(task.data, "solve_rate", None)}


def _texts(data: Any) -> tuple[str, str]:
    """Return system prompt and prompt of a task. Raises CodeVerifierError if it has other turns."""
    turns = [("system", data.system_prompt)] * (data.system_prompt is not None)
    one = isinstance(data.prompt, str)
    turns += [("user", data.prompt)] if one else [(m.role, m.content) for m in data.prompt]
    *before, (role, prompt) = turns
    texts = [text for _, text in turns if isinstance(text, str)]
    if len(texts) < len(turns) or role != "user" or any(other != "system" for other, _ in before):
        roles = ", ".join(role for role, _ in turns)
        raise CodeVerifierError(f"task {data.idx} has turns of {roles}; expected a user's text")
    return "\n\n".join(texts[:-1]), prompt


def _score(key: str, reply: str, wall_s: float) -> Row:
    """Score a reply as `Task.score` does in a trace of one turn. What precedes the end of a thought
    is the message's `reasoning_content`."""
    import verifiers.v1 as vf

    if key not in _tasks:
        raise CodeVerifierError(
            "the taskset lacks this task; install what it was, or seed what it draws"
        )
    faulthandler.dump_traceback_later(wall_s, exit=True, file=2)
    task, most = copy.copy(_tasks[key][0]), _tasks[key][1]
    task.data = task.data.model_copy(deep=True)
    thought, _, text = reply.rpartition("</think>")
    system, prompt = _texts(task.data)
    turns: list[Any] = [vf.SystemMessage(content=system)] if system else []
    turns += [vf.UserMessage(content=prompt)]
    turns += [vf.AssistantMessage(content=text, reasoning_content=thought or None)]
    record = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=key)
    trace: Any = vf.Trace(task=record, agent=vf.AgentInfo.model_construct(), ok=True)
    for i, turn in enumerate(turns):
        parent = i - 1 if i else None
        trace.nodes.append(vf.MessageNode(parent=parent, message=turn, sampled=turn is turns[-1]))
    trace.stop("agent_completed")
    asyncio.run(task.score(trace))
    parts = {name: float(reward.value) for name, reward in trace.rewards.items()}
    score = sum(parts.values()) / (most or 1.0)
    if not parts or not math.isfinite(score) or (most and score > 1.0):
        bound = f"at most its MAX_REWARD {most:g}" if most else "a finite number"
        raise CodeVerifierError(f"its reward is {parts or None}; expected {bound}")
    return {"score": score, "reason": ", ".join(f"{name} {x:g}" for name, x in parts.items())}
