"""What a population costs at 7B, eight members and one; and where an update's time goes."""

import json
import subprocess
import sys
import time
from typing import Any

import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiler

from lora_evo.model import Rollout
from selfplay import TrainingSample, load_preset
from selfplay.learning.learner import Learner
from selfplay.machine.architecture import read_architecture
from selfplay.members.population import open_learner
from setting import ROOT, Setting, set_all

BASE = "Qwen2.5-7B"
PEAKS = {"H100": 989e12, "H200": 989e12}
"""Dense bfloat16 FLOP a second, by the card's data sheet (SXM)."""
KERNELS = 25


def cost(setting: Setting) -> None:
    """Write the rows of eight members."""
    population(setting, "cost", 8)


def cost1(setting: Setting) -> None:
    """Write the rows of one member, to compare with."""
    population(setting, "cost1", 1)


def population(setting: Setting, step: str, members: int) -> None:
    """Run the benchmark and write each of its rows as it comes, and one that sums up."""
    rows, prompt, completion = (2, 16, 8) if setting.tiny else (32, 512, 512)
    script = ROOT / "benchmarks/population_cost.py"
    words = [sys.executable, script, setting.random_base(BASE), "--json"]
    words += ["--members", members, "--engine", setting.engine, "--rows", rows]
    words += ["--prompt", prompt, "--completion", completion, *set_all(setting.assignments())]
    begun, seconds = time.perf_counter(), {}
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith("{"):
                row = json.loads(line)
                seconds[row["what"]] = row["seconds"]
                setting.write(step, members=members, **row)
    one, all_members = (seconds.get(f"sample: {who}") for who in ("one member", "all members"))
    ratio = all_members / one if one and all_members else None
    passed, sizes = process.returncode == 0, {"rows": rows, "tokens": prompt + completion}
    setting.write(
        step, passed=passed, members=members, all_against_one=ratio, **sizes,
        seconds=time.perf_counter() - begun,
    )  # fmt: skip
    sys.exit(not passed)


def profile(setting: Setting) -> None:
    """Write an update's share of the peak, and the kernels that take most of its time."""
    base, on_gpu = setting.random_base(BASE), setting.device == "cuda"
    learner, _ = open_learner(
        load_preset("7b-1t1s", f"base={base}", "engine=hf", *setting.assignments())
    )
    count, prompt, completion = (2, 16, 8) if setting.tiny else (16, 512, 1024)
    samples = made_up(learner, count, prompt, completion)

    def update() -> float:
        begun = time.perf_counter()
        learner.update(samples)
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    update()
    seconds = sorted(update() for _ in range(3))[1]
    shape = read_architecture(str(base))
    body = sum(inputs * outputs for _, inputs, outputs in shape.linears)
    head, tokens = shape.hidden * shape.vocabulary, count * (prompt + completion)
    # Of a frozen base: the forward pass, and the backward pass to what came in, 2 FLOP a weight.
    flop = 4.0 * (body * tokens + head * count * completion)
    row = {"update_s": seconds, "tokens": tokens, "tokens_a_second": tokens / seconds}
    row |= {"tflops": flop / seconds / 1e12}
    if on_gpu:
        card, peak_gib = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated() / 2**30
        peak = next((peak for name, peak in PEAKS.items() if name in card), None)
        row |= {"of_datasheet": peak and flop / seconds / peak, "peak_gib": peak_gib}
    setting.write("profile", **row)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profiler(activities=kinds) as trace:
        update()
    setting.write("profile", **slowest(trace, on_gpu))


def made_up(learner: Learner, count: int, prompt: int, completion: int) -> list[TrainingSample]:
    """Return rows of everyone, of random tokens, half of them to become less likely."""
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 400, (count, prompt + completion), generator=draws).tolist()
    samples = []
    for i, row in enumerate(ids):
        member = learner.members[i % len(learner.members)]
        logprobs = (-6.0,) * completion
        rollout = Rollout(member, tuple(row[:prompt]), tuple(row[prompt:]), logprobs, "stop")
        samples.append(TrainingSample(member, rollout, (-1.0) ** (i // 2), task_id=str(i)))
    return samples


def slowest(trace: Any, on_gpu: bool) -> dict[str, Any]:
    """Return the kernels (name, share, calls) that take most time, on a CPU the operators."""
    key = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    found = sorted(trace.key_averages(), key=lambda event: -getattr(event, key))
    total = sum(getattr(event, key) for event in found) or 1.0
    named = [(e.key[:90], round(getattr(e, key) / total, 4), e.count) for e in found[:KERNELS]]
    return {"total_ms": total / 1e3, "calls": sum(e.count for e in found), "kernels": named}
