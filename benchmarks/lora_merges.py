"""How far merged adapters are from the exact merge of updates: ours, PEFT's and mergekit's.

    python benchmarks/lora_merges.py

Relative Frobenius error to the dense result in double precision: the weighted sum, which is also
the mean of DARE, and TIES. PEFT merges factors (`linear`, `ties`, `dare_linear`), or updates by a
dense SVD, and leaves out what it refuses; mergekit merges whole models, so that its result is no
adapter. Both are optional.
"""

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TypeAlias

import torch
from benchmarking import Row, show
from lora_peers import REDUCED, adapter, cut, dense, peft_updates, relative, relative_error

from lora_evo import Adapter, merge

Updates: TypeAlias = dict[str, torch.Tensor]
DENSITY, WEIGHTS = 0.5, [0.5, 0.5]


def exact(updates: list[torch.Tensor], method: str) -> torch.Tensor:
    """The mean of the updates, or of what TIES keeps of them."""
    if method != "ties":
        return torch.stack(updates).mean(dim=0)
    size = round(DENSITY * updates[0].numel())
    limits = [update.abs().flatten().topk(size).values[-1] for update in updates]
    pairs = zip(updates, limits, strict=True)
    parts = torch.stack([torch.where(update.abs() >= limit, update, 0) for update, limit in pairs])
    agree = parts.sign() == parts.sum(dim=0).sign()
    return (parts * agree).sum(dim=0) / agree.sum(dim=0).clamp(min=1)


def by_mergekit(updates: list[torch.Tensor], method: str) -> torch.Tensor:
    """What mergekit changes a random base weight by."""
    from mergekit.merge_methods.base import PerInputValues, TensorGroup
    from mergekit.merge_methods.registry import get

    name = {"svd": "task_arithmetic", "ties": "ties", "dare_linear": "dare_linear"}[method]
    merger: Any = get(name)
    base = 0.02 * torch.randn(updates[0].shape)
    group = TensorGroup.from_tensors([base, *(base + u.float() for u in updates)], base_index=0)
    merged = merger.merge_group(
        group,
        weight=PerInputValues({1: 0.5, 2: 0.5}),
        density=PerInputValues({1: DENSITY, 2: DENSITY}),
        normalize=method == "ties",
        rescale=method == "dare_linear",
        int8_mask=False,
        **{"lambda": 1.0},
    )
    return (merged - base).double()


def makers(parents: list[Adapter], method: str) -> dict[str, Callable[[], Updates | None]]:
    """What makes a child of the parents, by its column."""
    options = {} if method == "svd" else {"density": DENSITY}
    factors = {"svd": "linear", "ties": "ties", "dare_linear": "dare_linear"}[method]
    svd = "svd" if method == "svd" else f"{factors}_svd"
    # PEFT divides TIES by how many agree, so that weights of 1 are the mean there.
    share = [1.0, 1.0] if method == "ties" else WEIGHTS
    methods: dict[str, Callable[[], Updates | None]] = {
        "ours": lambda: dense(merge(parents, method, weights=WEIGHTS, rank=8, **options)),
    }
    if find_spec("peft"):
        methods["PEFT factors"] = lambda: peft_updates(parents, factors, share, DENSITY)
        methods["PEFT svd"] = lambda: peft_updates(parents, svd, share, DENSITY)
    if find_spec("mergekit"):
        updates = [dense(parent) for parent in parents]
        methods["mergekit, whole"] = lambda: {
            path: by_mergekit([update[path] for update in updates], method) for path in updates[0]
        }
    return methods


def main() -> None:
    torch.manual_seed(1)
    first = adapter(1, 8, torch.float32, REDUCED, layers=2)
    kinds = ("identical", "flipped", "rotated", "sibling", "independent")
    adapters = {kind: relative(first, kind) for kind in kinds}
    adapters["other alpha"] = adapter(3, 8, torch.float32, REDUCED, layers=2, alpha=64)
    adapters["other rank and alpha"] = adapter(5, 4, torch.float32, REDUCED, layers=2, alpha=32)
    rows: list[Row] = []
    for name, other in adapters.items():
        updates = [dense(first), dense(other)]
        for method in ("svd", "ties", "dare_linear"):
            target = {p: exact([update[p] for update in updates], method) for p in updates[0]}
            best = {path: cut(value, 8) for path, value in target.items()}
            row: Row = {"parents": name, "method": method}
            row["best of rank 8"] = relative_error(best, target)
            for column, make in makers([first, other], method).items():
                row[column] = None
                with suppress(ValueError):  # what refuses parents of unequal ranks
                    result = make()
                    row[column] = result and relative_error(result, target)
            rows.append(row)
    show(rows)


if __name__ == "__main__":
    main()
