"""What two adapters must share to count as the same: configuration and exact weights.

SHA-256 throughout: processors have instructions for it, which make it the fastest of the hashes
that Python brings along.
"""

import hashlib
from collections.abc import Mapping

import torch

from lora_evo.files.adapter import Adapter, Slot
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.layout import LINEAR

_PREFIX = "sha256:"


def slot_digest(slot: Slot) -> str:
    """Hash of both factors of a slot: dtype, shape and bytes; and of its layout, unless linear."""
    digest = hashlib.sha256()
    for factor in (slot.A, slot.B):
        digest.update(f"{factor.dtype}{list(factor.shape)}".encode())
        flat = factor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    if slot.layout != LINEAR:
        digest.update(str(slot.layout).encode())
    return digest.hexdigest()


def combine(config: AdapterConfig, digests: Mapping[str, str]) -> str:
    """The content hash of an adapter, from its configuration and the digests of its slots."""
    digest = hashlib.sha256(config.fingerprint())
    for path in sorted(digests):
        digest.update(f"\n{path} {digests[path]}".encode())
    return _PREFIX + digest.hexdigest()


def adapter_hash(adapter: Adapter) -> str:
    """The content hash of an adapter in memory; equals `content_hash` of its saved directory."""
    return combine(adapter.config, {path: slot_digest(s) for path, s in adapter.slots.items()})
