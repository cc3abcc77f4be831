"""Which layers of protection are active on this machine, and what the missing ones cost."""

import platform
from dataclasses import dataclass

from code_verifier.errors import SandboxUnavailable
from code_verifier.processes import REQUIRED_LAYERS
from code_verifier.sandbox import Sandbox

_COSTS = {
    "fresh_process": "programs could see each other's state",
    "rlimits": "a program could use all memory or processor time",
    "no_new_privs": "a program could gain rights through set-uid files",
    "seccomp": "a program could reach files, the network and other processes",
    "clocks": "a program could read the real date and time, and be accepted by chance",
    "landlock": "a hole in the filter would reach files and TCP ports",
    "namespaces": "a hole in the filter would reach the network and shared memory",
    "other_user": "a program that escapes is root",
    "empty_root": "a program that escapes could see files; needs root or user namespaces",
}


@dataclass(frozen=True)
class Layer:
    """One layer of protection."""

    name: str
    active: bool
    required: bool
    cost: str
    """What its absence means."""


@dataclass(frozen=True)
class Diagnosis:
    """State of this machine."""

    system: str
    machine: str
    kernel: str
    python: str
    layers: tuple[Layer, ...]
    works: bool
    error: str
    """Why no sandbox could be started, or ""."""


def diagnose() -> Diagnosis:
    """Start a sandbox, run a program, and report."""
    found: dict[str, bool] = {}
    error = ""
    try:
        with Sandbox(workers=1, allow_weak=True) as sandbox:
            found = sandbox.layers()
            verdict = sandbox.check("def f(x):\n    return x + 1", "1")
            if verdict.output != "2":
                error = f"a test program ended with {verdict.status}: {verdict.reason}"
            found |= {"fresh_process": True, "rlimits": True}
    except SandboxUnavailable as problem:
        error = str(problem)
    layers = tuple(
        Layer(name, found.get(name, False), name in REQUIRED_LAYERS, cost)
        for name, cost in _COSTS.items()
    )
    works = not error and all(layer.active for layer in layers if layer.required)
    system = platform.system(), platform.machine(), platform.release()
    return Diagnosis(*system, platform.python_version(), layers, works, error)
