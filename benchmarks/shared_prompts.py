"""Tokens, operations and memory of an update of a 7B: prompts read once against prompts read whole.

    OMP_NUM_THREADS=1 python benchmarks/shared_prompts.py [--preset 7b-4t4s] [--tasks 1]
        [--completions 256 512 1024]

The learner reads a prompt once for all attempts at its task. Each row is an update on fake tensors,
which have shapes and no values: a small part of a step, with the preset's members, prompts of its
usual lengths and completions of the given one. A teacher has `tasks` proposals, each with a prompt
of its own; a student has all attempts at as many tasks. `whole` is the same update with prompts
that differ in one token, so that none is shared. Operations are those of matrix products and of
attention, where each token counts as if it saw all keys of its block. The peak is of all tensors.
All three are lines in the number of layers, drawn through an update of two layers and one of four.
"""

import sys
from pathlib import Path
from unittest.mock import patch

import torch
from benchmarking import Row, parser, show
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, register_flop_formula
from transformers import AutoModelForCausalLM

from lora_evo.model import Rollout, stacked_lora
from selfplay import Config, Learner, TrainingSample, load_preset
from selfplay.machine.architecture import model_config
from selfplay.machine.devices import GIB
from selfplay.machine.plan import workload

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from memory_meter import MemoryMeter

COLUMNS = (("tokens", "tokens", 1), ("operations", "TFLOP", 10**12), ("peak", "peak GiB", GIB))


class Operations(TorchDispatchMode):
    """Counts by torch's own formulas; its FlopCounterMode cannot follow a gradient in a forward."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func._overloadpacket):
            self.count += formula(*args, **(kwargs or {}), out_val=out)
        return out


@register_flop_formula(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu)
def attention(query: list[int], key: list[int], *_: object, **__: object) -> int:
    """Return the operations of both products, from shapes [batch, heads, tokens, features]."""
    batch, heads, tokens, features = query
    return 4 * batch * heads * tokens * key[2] * features


@register_flop_formula(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward)
def attention_back(_: object, query: list[int], key: list[int], *__: object, **___: object) -> int:
    """Return the operations of its backward pass, which has five such products."""
    return 5 * attention(query, key) // 2


def samples(config: Config, tasks: int, completion: int, shared: bool) -> list[TrainingSample]:
    """Return what each teacher and each student learns from."""
    batch: list[TrainingSample] = []
    step = workload(config)
    for name in config.founders:
        rows = step.proposals if name in config.proposers else step.attempts
        for task in range(tasks):
            for attempt in range(rows.samples):
                prompt = (task, 0 if shared else attempt) + (1,) * (rows.prompt - 2)
                text = Rollout(name, prompt, (2,) * completion, (-1.0,) * completion, "stop")
                batch.append(TrainingSample(name, text, 1.0, task_id=str(task)))
    return batch


def measure(
    config: Config, layers: int, tasks: int, completion: int, shared: bool
) -> dict[str, int]:
    """Return tokens read, operations, and the peak in bytes of one update; layers: of the base."""
    read = 0

    def count(module: object, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal read
        read += inputs[0].numel()

    shape = model_config(config.base)
    shape.num_hidden_layers, shape.layer_types = layers, shape.layer_types[:layers]
    no_values = patch.object(stacked_lora, "starting_a", lambda *_: torch.zeros(()))
    with FakeTensorMode(), MemoryMeter() as meter, Operations() as operations, no_values:
        model = AutoModelForCausalLM.from_config(shape, dtype=getattr(torch, config.dtype)).eval()
        model.get_input_embeddings().register_forward_hook(count)
        learner = Learner(model.requires_grad_(False), config.founders, config.learner, seed=0)
        learner.update(samples(config, tasks, completion, shared))
    return {"tokens": read, "operations": operations.count, "peak": meter.peak}


def main() -> None:
    options = parser(__doc__, preset="7b-4t4s", tasks=1)
    options.add_argument("--completions", nargs="+", type=int, default=[256, 512, 1024])
    a = options.parse_args()
    config = load_preset(a.preset)
    layers = model_config(config.base).num_hidden_layers
    for number, completion in enumerate(a.completions):

        def of_all(shared: bool, completion: int = completion) -> dict[str, float]:
            few, more = (measure(config, n, a.tasks, completion, shared) for n in (2, 4))
            return {key: few[key] + (more[key] - few[key]) * (layers - 2) / 2 for key in few}

        shared, whole = of_all(True), of_all(False)
        row: Row = {"completion": completion}
        for key, title, unit in COLUMNS:
            row[f"{title}, whole"], row[title] = whole[key] / unit, shared[key] / unit
            row[f"{title}, ratio"] = shared[key] / whole[key]
        show([row], head=not number)


if __name__ == "__main__":
    main()
