"""The state of this machine: versions, device, sandbox, and who else owns the name `evals`."""

from dataclasses import dataclass
from importlib.metadata import packages_distributions

from code_verifier import Sandbox, SandboxUnavailable
from evals.runs.versions import versions

_OURS = frozenset({"populab-evals", "populab-workspace"})


@dataclass(frozen=True)
class Diagnosis:
    """layers: protection layers of the sandbox and whether each is active.

    problems: what keeps the package from working, each with what to do. rivals: other installed
    distributions that own the import name `evals`.
    """

    versions: dict[str, str]
    device: str
    layers: dict[str, bool]
    rivals: tuple[str, ...]
    problems: tuple[str, ...]


def diagnose() -> Diagnosis:
    """Look at everything; start a sandbox and run one program in it."""
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
        problems.append(
            "the sandbox lacks seccomp: judging needs --allow-weak (see code-verifier doctor)"
        )
    rivals = tuple(sorted(set(packages_distributions().get("evals", ())) - _OURS))
    problems += [
        f"{rival} also installs a package called evals, and one overwrites the other; "
        f"type: pip uninstall {rival}, and install populab-evals again"
        for rival in rivals
    ]
    return Diagnosis(versions(), _device(), layers, rivals, tuple(problems))


def _device() -> str:
    try:
        import torch
    except ImportError as error:
        return f"no torch ({error})"
    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name(0)}"
    return f"cpu, {torch.get_num_threads()} threads"
