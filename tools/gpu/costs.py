"""What a population costs at 7B, eight members and one; and where an update's time goes."""

import json
import subprocess
import sys
import time
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiler

from lora_evo.model import Request, Rollout
from selfplay import TrainingSample, load_preset
from selfplay.learning.learner import Learner
from selfplay.machine.architecture import read_architecture
from selfplay.machine.plan import plan_run
from selfplay.members.population import open_learner
from setting import ROOT, Setting, set_all

BASE = "Qwen2.5-7B"
PEAKS = {"H100": 989e12, "H200": 989e12}
"""Dense bfloat16 FLOP a second, by the card's data sheet (SXM)."""
KERNELS = 25
GIB, CARD24 = 2**30, 23.0
"""What an RTX 4090 has, less what the driver keeps."""


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
    """Write an update's share of the peak, and the kernels that take most of its time.

    Rows are of attempts with a prompt each, and of eight with one prompt, which is read once.
    `fresh_s`: updates with lengths that were not there before; `cudnn_s`: the same with cuDNN's
    attention. `packed_error`: mean difference, in nats, of log-probabilities of rows read together
    and alone. `least_s`: updates of two short rows, whose time is that of calls.
    """
    base, on_gpu = setting.random_base(BASE), setting.device == "cuda"
    learner, _ = open_learner(
        load_preset("7b-1t1s", f"base={base}", "engine=hf", *setting.assignments())
    )
    count, prompt, completion = (4, 16, 8) if setting.tiny else (16, 512, 1024)
    shape = read_architecture(str(base))
    body = sum(inputs * outputs for _, inputs, outputs in shape.linears)
    least = made_up(learner, 2, 4, 4, 1)
    setting.write("profile", least_s=[updated(learner, least) for _ in range(3)])
    for attempts in (1, 2 if setting.tiny else 8):
        samples = made_up(learner, count, prompt, completion, attempts)
        seconds = sorted(updated(learner, samples) for _ in range(4))[1]
        tokens = count * completion + count // attempts * prompt
        # Of a frozen base, forwards and backwards to what came in: 2 FLOP a weight each.
        flop = 4.0 * (body * tokens + shape.hidden * shape.vocabulary * count * completion)
        row = {"attempts": attempts, "update_s": seconds, "tokens": tokens}
        row |= {"tokens_a_second": tokens / seconds, "tflops": flop / seconds / 1e12}
        row |= {"packed_error": packed_error(learner, samples)}
        if on_gpu:
            card = torch.cuda.get_device_name()
            peak = next((peak for name, peak in PEAKS.items() if name in card), None)
            row |= {"of_datasheet": peak and flop / seconds / peak}
            row |= {"peak_gib": torch.cuda.max_memory_allocated() / GIB}
        setting.write("profile", **row)
        fresh = {}
        for name, cudnn in (("fresh_s", False), ("cudnn_s", True)):
            torch.backends.cuda.enable_cudnn_sdp(cudnn)
            fresh[name] = [
                updated(learner, made_up(learner, count, prompt, completion, attempts, seed))
                for seed in (1, 2)
            ]
        torch.backends.cuda.enable_cudnn_sdp(False)
        setting.write("profile", attempts=attempts, **fresh)
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
        with profiler(activities=kinds) as trace:
            updated(learner, samples)
        setting.write("profile", attempts=attempts, **slowest(trace, on_gpu))


@torch.no_grad()
def packed_error(learner: Learner, samples: list[TrainingSample]) -> float:
    """Return the mean difference (nats) of scores of four rows together and of each alone."""
    chosen = [sample for sample in samples if sample.member == learner.members[0]][:4]
    rows = [sample.rollout for sample in chosen]
    scorer, places = learner.scorer, [0] * len(rows)
    (together,) = scorer.scores(scorer.laid(rows, places))
    alone = [scorer.scores(scorer.laid([row], [0]))[0] for row in rows]
    return float((together - torch.cat(alone)).abs().mean())


def card24(setting: Setting) -> None:
    """Write what the preset for a card of 24 GB takes; this one gives no more than that."""
    base, on_gpu = setting.random_base(BASE), setting.device == "cuda"
    if on_gpu:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(CARD24 * GIB / whole)
    four = f"load_in_4bit={str(on_gpu).lower()}"
    config = load_preset("7b-24gb", f"base={base}", four, *setting.assignments())
    count, prompt, completion = (8, 16, 8) if setting.tiny else (8, 2048, 1024)
    begun = time.perf_counter()
    learner, engine = open_learner(config)

    def say(what: str, **row: Any) -> None:
        memory = {"peak_gib": torch.cuda.max_memory_allocated() / GIB} if on_gpu else {}
        setting.write("card24", what=what, **row, **memory)
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()

    planned = plan_run(config, "RTX4090") if on_gpu else None
    moments = (
        {"learning": planned.learning / GIB, "sampling": planned.sampling / GIB} if planned else {}
    )
    say("open", seconds=time.perf_counter() - begun, planned_gib=moments)
    tokens = 8 if setting.tiny else 64
    batch = [
        Request((5,) * prompt, learner.members[i % len(learner.members)], tokens, 1.0, i)
        for i in range(count)
    ]
    for what in ("sample first", "sample"):
        begun = time.perf_counter()
        engine.generate(batch)
        say(what, seconds=time.perf_counter() - begun, rows=count, tokens=tokens)
    for attempts in (1, 2):
        samples = made_up(learner, count, prompt, completion, attempts)
        seconds = [updated(learner, samples) for _ in range(2)][-1]
        say("update", attempts=attempts, seconds=seconds, rows=count, tokens=prompt + completion)


def updated(learner: Learner, samples: list[TrainingSample]) -> float:
    """Make an update; return its seconds."""
    begun = time.perf_counter()
    learner.update(samples)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def made_up(
    learner: Learner, count: int, prompt: int, completion: int, attempts: int, seed: int = 0
) -> list[TrainingSample]:
    """Return rows of everyone, of random tokens, half of them to become less likely.

    attempts: so many rows of a member share each prompt. seed: above 0, completions have lengths
    from half of `completion` on.
    """
    draws = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 400, (count, prompt + completion), generator=draws).tolist()
    lengths = torch.randint(completion // 2, completion + 1, (count,), generator=draws).tolist()
    samples = []
    for i, row in enumerate(ids):
        task, length = i // attempts, lengths[i] if seed else completion
        member, tokens = learner.members[task % len(learner.members)], ids[task][:prompt]
        logprobs, end = (-6.0,) * length, prompt + length
        rollout = Rollout(member, tuple(tokens), tuple(row[prompt:end]), logprobs, "stop")
        sign = (-1.0) ** (i % attempts if attempts > 1 else i // 2)
        samples.append(TrainingSample(member, rollout, sign, task_id=str(task)))
    return samples


def slowest(trace: Any, on_gpu: bool) -> dict[str, Any]:
    """Return the kernels (name, share, calls) that take most time, on a CPU the operators."""
    key = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    kind = DeviceType.CUDA if on_gpu else DeviceType.CPU
    events = [event for event in trace.key_averages() if event.device_type == kind]
    events.sort(key=lambda event: -getattr(event, key))
    total = sum(getattr(event, key) for event in events) or 1.0
    named = [(e.key[:90], round(getattr(e, key) / total, 4), e.count) for e in events[:KERNELS]]
    return {"total_ms": total / 1e3, "calls": sum(e.count for e in events), "kernels": named}
