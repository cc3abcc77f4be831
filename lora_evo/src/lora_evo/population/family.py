"""The adapters of a folder with their lineages."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.breeding.lineage import Lineage, read_lineage
from lora_evo.files.directory import PathLike, content_hash
from lora_evo.files.folders import adapter_folders, shortest_unique_names


@dataclass(frozen=True)
class Member:
    """One adapter on disk: its name (path below the folder asked for), content and record."""

    name: str
    content: str
    lineage: Lineage | None

    @property
    def trained(self) -> bool:
        """Whether the weights have changed since the adapter was bred."""
        return self.lineage is not None and self.lineage.content_hash != self.content

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the lineage's heading fields."""
        record, fields = self.lineage, ("operator", "seed", "relative_change")
        return {
            "name": self.name,
            "content_hash": self.content,
            "trained": self.trained,
            "generation": record.generation if record else 0,
            **{field: getattr(record, field, None) for field in fields},
            "parents": list(record.parents) if record else [],
        }


def family(roots: Iterable[PathLike]) -> list[Member]:
    """All adapters at or below the given folders, named by their shortest unique path."""
    folders = adapter_folders(Path(root) for root in roots)
    return [
        Member(name, content_hash(folder), read_lineage(folder))
        for folder, name in zip(folders, shortest_unique_names(folders), strict=True)
    ]
