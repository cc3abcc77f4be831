"""The benchmarks on a real model and two child adapters: `make real TASKS=FILE [DATA=FOLDER]`.

    python benchmarks/small_model/run.py OUT --tasks TASKS.jsonl [--data FOLDER]

Makes, in OUT: the small model (`small_model.py`), a LoRA on it (`selfplay sft`), two children
by `lora-evo mutate`, HumanEval+ and MBPP+ greedy, the first 100 questions of GSM8K and of MATH-500,
and the report. What is done already is kept, so that the same command resumes. TASKS: rows
{"snippet", "input", "output"}, such as the seed tasks of Absolute Zero's public repository. DATA: a
folder with a file of each benchmark, `humaneval_plus/*.jsonl.gz` and so on; without it they are
fetched. Printed at the end are minutes and the largest memory of each part.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
CHILDREN = {"spectral": ("svd_structured", "0.3"), "noisy": ("full_gaussian", "0.3")}
FILES = {
    "humaneval_plus": "HumanEvalPlus.jsonl.gz",
    "mbpp_plus": "MbppPlus.jsonl.gz",
    "gsm8k": "test.jsonl",
    "math500": "test.jsonl",
}
PARTS = {
    "humaneval_plus": ("--recipe", "evalplus"),
    "mbpp_plus": ("--recipe", "evalplus"),
    "gsm8k": ("--limit", "100", "--max-tokens", "320"),
    "math500": ("--limit", "100", "--max-tokens", "512"),
}


def main() -> None:
    """Run every part, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    out: Path = arguments.out
    if not arguments.tasks.is_file():
        sys.exit(f"there is no file {arguments.tasks}; type: make real TASKS=FILE")
    base, parent = out / "smollm2-135m-instruct", out / "adapters" / "parent"
    parts: list[tuple[str, float, float]] = []

    def part(name: str, *command: object) -> None:
        began = time.perf_counter()
        subprocess.run([str(word) for word in command], check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        parts.append((name, (time.perf_counter() - began) / 60, peak))

    python, tool = sys.executable, Path(sys.executable).parent
    part("model", python, HERE / "small_model.py", base)
    settings = (f"base={base}", "template=azr-chat", "learner.r=8", "learner.lora_alpha=16")
    warm = [word for setting in settings for word in ("--set", setting)]
    warm += ["--data", arguments.tasks, "--out", parent, "--steps", "20", "--seed", "1"]
    part("warm start", tool / "selfplay", "sft", "--preset", "smol", *warm)
    adapters: list[object] = []
    for name, (operator, strength) in CHILDREN.items():
        child = out / "adapters" / name
        adapters += ["--adapter", child]
        if not child.exists():
            words = ("--strength", strength, "--seed", "1", "--out", child)
            part(f"make {name}", tool / "lora-evo", "mutate", operator, parent, *words)
    for name, options in PARTS.items():
        data = ["--data", arguments.data / name / FILES[name]] if arguments.data else []
        flags = ("--model", base, "--base", *adapters, "--any-base", "--benchmark", name)
        flags = (*flags, *data, *options, "--dtype", "float32", "--max-rows", "128")
        flags = (*flags, "--out", out / "scores")
        part(name, tool / "evals", "run", *flags)
    page = ("--html", out / "report.html")
    subprocess.run([tool / "evals", "report", out / "scores", *page], check=True)
    for name, minutes, peak in parts:
        print(f"{name:20} {minutes:6.1f} min, largest process so far {peak:,.0f} MB")


if __name__ == "__main__":
    main()
