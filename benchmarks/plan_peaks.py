"""Estimated against real peaks of memory: what `selfplay plan` says, and what a process takes.

    python benchmarks/plan_peaks.py [BASE] [--cases nano smol]

Each row is a process of its own that does one phase at the sizes that the plan assumes: an update
on the largest micro-batches of both roles, or samples from the longest prompts up to the longest
completion. BASE is a folder for the presets: of the small model for `smol` (its comment says how to
make one), for `7b`, on a GPU, also of random weights (`random_base.py`). On a CPU the peak is the
resident memory of the process; on a GPU the tensors' and what the driver takes, and in one more
column what torch's allocator holds, with the gaps between tensors.
"""

import argparse
import json
from pathlib import Path

from benchmarking import alone, memory, parser, show

from selfplay import Config, load_preset
from selfplay.machine.architecture import read_architecture
from selfplay.machine.devices import GIB, this_machine
from selfplay.machine.plan import make_plan, micro_batch, workload

NANO = (
    ("nano", "learning", ()),
    ("nano", "learning", ("learner.micro_batch_tokens=16384",)),
    ("nano", "sampling", ()),
)
LONG = ("rollout.kinds=[code_o]", "rollout.max_completion_length=900")
SMOL = (
    ("smol", "learning", ("learner.micro_batch_tokens=1024",)),
    ("smol", "learning", ()),
    ("smol", "learning", ("dtype=bfloat16",)),
    ("smol", "learning", LONG),
    ("smol", "learning", (*LONG, "learner.gradient_checkpointing=true")),
    ("smol", "sampling", ("rollout.max_rows=8",)),
)
HF = ("engine=hf",)
SHORT = ("rollout.max_proposal_length=256", "rollout.max_completion_length=256")
LARGE = (
    ("7b-1t1s", "learning", HF),
    ("7b-4t4s", "learning", HF),
    ("7b-4t4s", "learning", (*HF, "learner.gradient_checkpointing=true")),
    ("7b-8t8s", "learning", HF),
    ("7b-4t4s", "sampling", (*HF, *SHORT, "rollout.max_rows=32")),
)
CASES = {"nano": NANO, "smol": SMOL, "7b": LARGE}


def settings(preset: str, base: str, assignments: tuple[str, ...]) -> Config:
    """The preset with these values, on one thread."""
    options = () if preset == "nano" else (f"base={base}",)
    return load_preset(preset, "threads=1", *options, *assignments)


def ids(start: int, count: int) -> tuple[int, ...]:
    return tuple(3 + (start * 7 + j) % 90 for j in range(count))


def do(phase: str, config: Config) -> list[float]:
    """Do a phase in this process, and return its peaks."""
    import torch

    from lora_evo.model import Request, Rollout
    from selfplay import TrainingSample
    from selfplay.members.population import open_learner

    learner, engine = open_learner(config)
    step, members = workload(config), learner.members
    if phase == "learning":
        samples = []
        for rows in step.parts:
            tokens, completed = micro_batch(rows, config.learner.micro_batch_tokens)
            count = -(-tokens // rows.longest)  # equal rows that fill the budget
            prompt, limit = (tokens - completed) // count, completed // count
            for i in range(count):
                whole = ids(i, prompt + limit)
                split = (whole[:prompt], whole[prompt:])
                member = members[i % len(members)]
                rollout = Rollout(member, *split, (-1.0,) * limit, "stop")
                samples.append(TrainingSample(member, rollout, (-1.0) ** i, task_id=str(i)))
        learner.update(samples)
    else:
        together = config.rollout.max_rows
        rows = max(step.sampled, key=lambda rows: min(together, rows.count) * rows.longest)
        role = members[: max(1, len(members) // 2)]
        engine.generate(
            [  # at temperature 8, which is noise, hardly any row ends by itself
                Request(ids(i, rows.longest_prompt), role[i % len(role)], rows.limit, 8.0, i)
                for i in range(min(together, rows.count))
            ]
        )
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        driver = float(total - free - torch.cuda.memory_reserved())
        peaks = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
        return [driver + peak for peak in peaks]
    return [float(memory("VmHWM"))] * 2


def main() -> None:
    options = parser(__doc__)
    options.add_argument("base", nargs="?", default="none")
    options.add_argument("assignments", nargs="*")
    options.add_argument("--cases", nargs="+", choices=CASES, default=["nano", "smol"])
    options.add_argument("--phase", choices=("learning", "sampling"), help=argparse.SUPPRESS)
    options.add_argument("--preset", help=argparse.SUPPRESS)
    args = options.parse_intermixed_args()
    if args.phase:
        config = settings(args.preset, args.base, tuple(args.assignments))
        print(json.dumps(do(args.phase, config)))
        return
    has_base = Path(args.base).is_dir()
    rows = []
    for preset, phase, assignments in [
        case for name in args.cases if name == "nano" or has_base for case in CASES[name]
    ]:
        config = settings(preset, args.base, assignments)
        machine = this_machine(config.device, config.threads)
        plan = make_plan(config, read_architecture(config.base), machine)
        estimated = plan.learning if phase == "learning" else plan.sampling
        words = (args.base, "--phase", phase, "--preset", preset, *assignments)
        peak, reserved = alone(__file__, *words)
        rows.append(
            {
                "what": " ".join((preset, phase, *assignments)),
                "estimated": estimated / GIB,
                "measured": peak / GIB,
                "ratio": estimated / peak,
                "reserved": reserved / GIB,
            }
        )
    show(rows)


if __name__ == "__main__":
    main()
