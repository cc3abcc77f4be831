"""What an adapter directory holds, module by module."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from lora_evo.files.adapter import open_adapter, slot_digest
from lora_evo.files.config import AdapterConfig
from lora_evo.files.directory import PathLike, combine
from lora_evo.linalg.thin import one_thread
from lora_evo.linalg.updates import dead_pairs, effective_rank, numerical_rank, singular_values


@dataclass(frozen=True)
class ModuleView:
    """One module: sizes, norms of factors and update, and how much of its rank is in use."""

    inputs: int
    outputs: int
    rank: int
    """Rank-one pairs."""
    alpha: float
    scale: float
    dtype: str
    norm_a: float
    norm_b: float
    norm_update: float
    effective_rank: float
    numerical_rank: int
    """Singular values above a millionth of the largest."""
    dead: int
    """Pairs whose two halves are zero and can never learn again."""


@dataclass(frozen=True)
class AdapterView:
    """A whole adapter directory."""

    config: AdapterConfig
    content_hash: str
    modules: dict[str, ModuleView]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, JSON-ready."""
        return {
            "content_hash": self.content_hash,
            "config": self.config.to_dict(),
            "modules": {path: asdict(view) for path, view in self.modules.items()},
        }


def inspect_directory(directory: PathLike) -> AdapterView:
    """Measure every module of an adapter directory, one at a time. Raises `LoraEvoError`."""
    modules: dict[str, ModuleView] = {}
    digests: dict[str, str] = {}
    with open_adapter(directory) as reader, one_thread():
        for path in reader.paths:
            slot = reader.slot(path)
            digests[path] = slot_digest(slot)
            values = singular_values(slot)
            modules[path] = ModuleView(
                inputs=int(slot.A.shape[1]),
                outputs=int(slot.B.shape[0]),
                rank=slot.rank,
                alpha=float(reader.config.alpha(path)),
                scale=slot.scale,
                dtype=str(slot.A.dtype).removeprefix("torch."),
                norm_a=float(torch.linalg.matrix_norm(slot.A.double())),
                norm_b=float(torch.linalg.matrix_norm(slot.B.double())),
                norm_update=float(torch.linalg.vector_norm(values)),
                effective_rank=effective_rank(values),
                numerical_rank=numerical_rank(values),
                dead=dead_pairs(slot),
            )
        return AdapterView(reader.config, combine(reader.config, digests), modules)
