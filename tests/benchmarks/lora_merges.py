"""How far merged adapters are from the exact merge of the updates: ours, PEFT's, mergekit's.

    python tests/benchmarks/lora_merges.py

Relative Frobenius error to the dense result in double precision: the weighted sum, which is also
the mean of DARE, and TIES. PEFT merges factors (`linear`, `ties`, `dare_linear`), or updates by a
dense SVD; mergekit merges whole models, so that its result is no adapter. Both are optional.
"""

import importlib.util
from typing import Any

import torch
from lora_peers import REDUCED, adapter, cut, dense, peft_updates, relative, relative_error

from lora_evo import merge

DENSITY, WEIGHTS = 0.5, [0.5, 0.5]


def exact(updates: list[torch.Tensor], method: str) -> torch.Tensor:
    """The mean of the updates, or of what TIES keeps of them."""
    if method != "ties":
        return torch.stack(updates).mean(dim=0)
    kept = round(DENSITY * updates[0].numel())
    limits = [update.abs().flatten().topk(kept).values[-1] for update in updates]
    pairs = zip(updates, limits, strict=True)
    parts = torch.stack([torch.where(update.abs() >= limit, update, 0) for update, limit in pairs])
    agree = parts.sign() == parts.sum(dim=0).sign()
    return (parts * agree).sum(dim=0) / agree.sum(dim=0).clamp(min=1)


def by_mergekit(updates: list[torch.Tensor], method: str) -> torch.Tensor:
    """What mergekit changes a random base weight by."""
    from mergekit.merge_methods.base import PerInputValues, TensorGroup
    from mergekit.merge_methods.registry import get

    name = {"sum": "task_arithmetic", "ties": "ties", "dare": "dare_linear"}[method]
    merger: Any = get(name)
    base = 0.02 * torch.randn(updates[0].shape)
    group = TensorGroup.from_tensors([base, *(base + u.float() for u in updates)], base_index=0)
    merged = merger.merge_group(
        group,
        weight=PerInputValues({1: 0.5, 2: 0.5}),
        density=PerInputValues({1: DENSITY, 2: DENSITY}),
        normalize=method == "ties",
        rescale=method == "dare",
        int8_mask=False,
        **{"lambda": 1.0},
    )
    return (merged - base).double()


def main() -> None:
    torch.manual_seed(1)
    first = adapter(1, 8, torch.float32, REDUCED, layers=2)
    others = {
        "siblings": relative(first, "sibling"),
        "independent": relative(first, "independent"),
        "other rank and alpha": adapter(5, 4, torch.float32, REDUCED, layers=2, alpha=32),
    }
    print(
        "| parents | method | best of rank 8 | ours | PEFT factors | PEFT svd | mergekit, whole |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, other in others.items():
        parents = [first, other]
        updates = [dense(parent) for parent in parents]
        for method, factors in (("sum", "linear"), ("ties", "ties"), ("dare", "dare_linear")):
            wanted = {p: exact([update[p] for update in updates], method) for p in updates[0]}
            given = {} if method == "sum" else {"density": DENSITY}
            found: list[Any] = [{path: cut(value, 8) for path, value in wanted.items()}]
            found.append(dense(merge(parents, method, weights=WEIGHTS, **given)))
            if importlib.util.find_spec("peft"):
                # PEFT divides TIES by how many agree, so that weights of 1 are the mean there.
                share = [1.0, 1.0] if method == "ties" else WEIGHTS
                svd = "svd" if method == "sum" else f"{factors}_svd"
                for kind in (factors, svd):
                    try:
                        found.append(peft_updates(parents, kind, share, DENSITY))
                    except ValueError:
                        found.append(None)
            if importlib.util.find_spec("mergekit"):
                each = {p: by_mergekit([update[p] for update in updates], method) for p in wanted}
                found.append(each)
            cells = ["refused" if f is None else f"{relative_error(f, wanted):.2g}" for f in found]
            print("|", " | ".join([name, method, *cells]), "|")


if __name__ == "__main__":
    main()
