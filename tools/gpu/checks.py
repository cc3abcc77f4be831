"""Checks of one engine on nano: each writes a row, and the next goes on whatever the last found."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from agreement import Pair, control, gap, healthy, move, opened, requests
from lora_evo import EngineStopped, LoraEvoError
from lora_evo.model import Request, Rollout, before_stop, vllm_engine
from selfplay import SelfplayError
from setting import Setting

Found = dict[str, Any]


def checks(setting: Setting) -> None:
    """Write a row a check; exit code 1 where one failed."""
    if setting.device == "cpu":  # a process of its own, as on a GPU
        first = vllm_engine.import_vllm
        vllm_engine.import_vllm = lambda name: first(True)
    good = True
    with opened(setting, "nano", "teachers=2", "students=2", "learner.r=8") as pair:
        for check in CHECKS:
            begun = time.perf_counter()
            try:
                passed, result = True, check(pair, setting)
            except Exception as error:
                traceback.print_exc()
                passed, result = False, {"error": f"{type(error).__name__}: {error}"[:400]}
            row = {"check": check.__name__, "passed": passed, "found": result}
            setting.write("checks", **row, seconds=time.perf_counter() - begun)
            good = good and passed
    sys.exit(not good)


def sampled(pair: Pair, setting: Setting, seed: int, heat: float = 0.0) -> Found:
    """Return the gap of what everyone writes now; heat: temperature, 0 takes the likeliest tokens.

    Raises AssertionError where it is no rounding.
    """
    rollouts = pair.engine.generate(requests(pair.names, heat, seed=seed))
    return rounded(pair, setting, rollouts, heat or 1.0)


def rounded(pair: Pair, setting: Setting, rollouts: Sequence[Rollout], heat: float = 1.0) -> Found:
    """Return the gap of these samples. Raises AssertionError where it is no rounding."""
    figures, other = gap(pair.learner, rollouts, heat), control(pair.learner, rollouts, heat)
    assert healthy(figures, other, setting.dtype), (figures, other)
    return figures | {"control": other["mean"]}


def hot_swap(pair: Pair, setting: Setting) -> Found:
    """Four versions of every member, each moved from the last, on prompts that are in the cache."""
    before, gaps = None, []
    for version in range(4):
        move(pair.learner, version, 0.03)
        pair.sync(version)
        rollouts = pair.engine.generate(requests(pair.names, 0.0))
        gaps.append(rounded(pair, setting, rollouts))
        by_members = [rollout.logprobs for rollout in rollouts if rollout.adapter]
        stale = before and sum(a == b for a, b in zip(by_members, before, strict=True))
        assert not stale, f"{stale} samples as of the version before"
        before = by_members
    return max(gaps, key=lambda figures: figures["mean"])


def sleep_and_wake(pair: Pair, setting: Setting) -> Found:
    """Sleeping frees memory of the GPU; who is woken has every adapter."""
    on_gpu, times, free = setting.device == "cuda", [time.perf_counter()], []
    for call in (lambda: None, pair.engine.release, pair.engine.restore):
        call()
        times.append(time.perf_counter())
        free.append(torch.cuda.mem_get_info()[0] if on_gpu else 0)
    figures = {"freed_gib": (free[1] - free[0]) / 2**30}
    figures |= {"sleep_s": times[2] - times[1], "wake_s": times[3] - times[2]}
    assert figures["freed_gib"] > 1 or setting.engine == "hf" or not on_gpu, figures
    return figures | sampled(pair, setting, 3)


def stream_left(pair: Pair, setting: Setting) -> Found:
    """A stream that is left after three samples leaves the engine well."""
    samples = pair.engine.stream(requests(pair.names, 1.0, 6, tokens=40, seed=5))
    first = [next(samples) for _ in range(3)]
    samples.close()
    return {"samples": len(first)} | sampled(pair, setting, 6)


def stop_texts(pair: Pair, setting: Setting) -> Found:
    """Rows end where a stop text is complete, and the text before it has none."""
    texts = [r.completion_ids for r in pair.engine.generate(requests(pair.names, 0.0, seed=8))]
    cuts = [pair.engine.decode(ids)[4:6] for ids in texts]
    stop = next((cut for cut in cuts if len(cut) == 2 and cut.strip()), "e")
    rows = pair.engine.generate(requests(pair.names, 0.0, seed=8, stop=(stop,)))
    assert not any(stop in before_stop(row.text, (stop,)) for row in rows)
    stopped = sum(row.finish_reason == "stop" for row in rows)
    assert stopped, f"no row ended at {stop!r}"
    return {"stopped": stopped, "of": len(rows)}


def temperature(pair: Pair, setting: Setting) -> Found:
    """Log-probabilities are those of the temperature that was sampled at."""
    return sampled(pair, setting, 9, heat=0.7)


def refusals(pair: Pair, setting: Setting) -> Found:
    """What would kill vLLM is refused, and the engine lives on."""
    for ids, name in (((5, 6), "gone"), ((), None), ((5,) * 5000, None)):
        try:
            pair.engine.generate([Request(ids, name, 4)])
        except LoraEvoError:
            continue
        raise AssertionError(f"taken: {len(ids)} tokens, adapter {name}")
    return sampled(pair, setting, 10)


def many_versions(pair: Pair, setting: Setting) -> Found:
    """Twelve more versions leave no adapter behind."""
    for version in range(100, 112):
        move(pair.learner, version, 0.003)
        pair.sync(version)
    if setting.engine == "vllm":
        held = pair.engine._served.llm.llm_engine.list_loras()
        assert len(held) == len(pair.names), held
    return sampled(pair, setting, 11)


def same_batch_twice(pair: Pair, setting: Setting) -> Found:
    """How many of the same requests give the same tokens: on a GPU not all have to."""
    batch = requests(pair.names, 1.0, seed=12)
    twice = [[r.completion_ids for r in pair.engine.generate(batch)] for _ in range(2)]
    return {"equal": sum(a == b for a, b in zip(*twice, strict=True)), "of": len(batch)}


def lost_adapter(pair: Pair, setting: Setting) -> Found:
    """An update that does not arrive at the engine stops the run."""
    if setting.engine == "hf":
        return {"skipped": "the engine samples with the learner's own parameters"}
    members = range(len(pair.learner.members))
    states, put = [pair.learner.member_state(i) for i in members], pair.engine.put_adapter
    pair.engine.put_adapter = lambda *arguments: None
    move(pair.learner, 200, 0.3)
    message = ""
    try:
        pair.sync(200)
    except SelfplayError as error:
        message = str(error)[:200]
    pair.engine.put_adapter = put
    for i, state in enumerate(states):
        pair.learner.load_member(i, state)
    assert message, "it went on with other weights"
    pair.sync(201)
    return {"said": message} | sampled(pair, setting, 13)


def killed(pair: Pair, setting: Setting) -> Found:
    """A process of vLLM's that dies is heard of at once. The last check: the engine is gone."""
    if setting.engine == "hf":
        return {"skipped": "the engine has no process of its own"}
    os.kill(pair.engine._served._processes[0].pid, signal.SIGKILL)
    begun = time.perf_counter()
    try:
        pair.engine.generate(requests(pair.names, 1.0))
    except EngineStopped as error:
        seconds = time.perf_counter() - begun
        assert seconds < 15, seconds
        return {"seconds": seconds, "said": str(error)[:200]}
    raise AssertionError("it went on")


CHECKS: tuple[Callable[[Pair, Setting], Found], ...] = (
    hot_swap, sleep_and_wake, stream_left, stop_texts, temperature, refusals, many_versions,
    same_batch_twice, lost_adapter, killed,
)  # fmt: skip
