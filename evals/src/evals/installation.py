"""The installation: versions, device, layers of the sandbox."""

import platform
import sys
from importlib.metadata import packages_distributions, version
from typing import Any

import code_verifier
from code_verifier import Sandbox, SandboxUnavailable

__version__ = "0.1.0"

_OURS = {"populab-evals", "populab-workspace"}


def versions() -> dict[str, str]:
    """Return the versions of Python, of our packages, and of their dependencies."""
    return {
        "python": platform.python_version(),
        "evals": __version__,
        "code_verifier": code_verifier.__version__,
        **{name: version(name) for name in ("click", "torch", "transformers")},
    }


def inspect_installation() -> dict[str, Any]:
    """Inspect the installation, and run a test program in the sandbox. Returns versions by name;
    device, in words; layers of the sandbox, and whether each is active; problems, a sentence each.
    """
    import torch

    problems: list[str] = []
    layers: dict[str, bool] = {}
    try:
        with Sandbox(workers=1, allow_weak=True) as sandbox:
            layers = sandbox.layers()
            verdict = sandbox.check("def f(x):\n    return x + 1", "1")
        if verdict.output != "2":
            problems.append(f"a test program ended with {verdict.status}: {verdict.reason}")
    except SandboxUnavailable as error:
        problems.append(f"no sandbox: {error}")
    if layers.get("seccomp") is False:
        weak = "grading needs --allow-weak (see code-verifier doctor)"
        problems.append(f"the sandbox lacks seccomp: {weak}")
    for rival in sorted(set(packages_distributions().get("evals", ())) - _OURS):
        problems.append(
            f"{rival} also installs a package called evals, and one overwrites the other; "
            f"type: {sys.executable} -m pip uninstall {rival}, then install evals again"
        )
    device = f"cpu, {torch.get_num_threads()} threads"
    if torch.cuda.is_available():
        device = f"cuda: {torch.cuda.get_device_name(0)}"
    return {"versions": versions(), "device": device, "layers": layers, "problems": problems}
