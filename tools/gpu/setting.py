"""What every step is told, and where its rows go."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
NANO = ROOT / "selfplay/src/selfplay/data/nano"
SHAPES: dict[str, dict[str, Any]] = {
    "Qwen2.5-0.5B": {
        "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "Qwen2.5-7B": {
        "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
        "tie_word_embeddings": False,
    },
}  # fmt: skip
"""What the models' config.json says: nothing is asked of the hub."""
SHARE = 0.3
"""Of the GPU's memory, for vLLM with a small base; the learner's process has the rest."""


@dataclass(frozen=True)
class Setting:
    """out: for rows and logs. work: for bases, runs and compiled kernels; later calls find them."""

    engine: str
    dtype: str
    device: str
    tiny: bool
    out: Path
    work: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Words on the command line that say the same."""
        words = [f"--engine={self.engine}", f"--dtype={self.dtype}", f"--device={self.device}"]
        words += [f"--out={self.out}", f"--work={self.work}", *(["--tiny"] if self.tiny else [])]
        return tuple(words)

    @property
    def eager(self) -> Path:
        """A file that is there once compiling failed: the steps after that do without."""
        return self.work / "eager"

    def assignments(self, *more: str) -> list[str]:
        """Return settings of a run, those of every step and some more."""
        return [
            *(f"dtype={self.dtype}", f"device={self.device}"),
            f"vllm.enforce_eager={str(self.eager.exists()).lower()}",
            *more,
        ]

    def environment(self) -> dict[str, str]:
        """Return the variables of a step's process: packages are found without an install."""
        paths = [*(ROOT / name / "src" for name in PACKAGES), ROOT / "benchmarks", self.entries()]
        path = [*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            "VLLM_LOGGING_LEVEL": "INFO",
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "VLLM_CACHE_ROOT": str(self.work / "vllm"),
            "TRITON_CACHE_DIR": str(self.work / "triton"),
        }

    def entries(self) -> Path:
        """Return a folder that declares the project's entry points: nano is found by its name."""
        about = self.work / "entries/populab-0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        lines = ["Metadata-Version: 2.1", "Name: populab", "Version: 0"]
        (about / "METADATA").write_text("\n".join(lines) + "\n")
        lines = []
        for group, names in project["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {place}" for name, place in names.items())]
        (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
        return about.parent

    def write(self, step: str, **row: Any) -> None:
        """Append a row to results.jsonl; it is on the disk before anything else can go wrong."""
        text = json.dumps({"step": step, **row}, default=str)
        with (self.out / "results.jsonl").open("a") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        print("row", text, flush=True)

    def random_base(self, shape: str) -> Path:
        """Return a base of random weights with nano's tokenizer, made once; tiny: of nano's shape.

        Raises CalledProcessError.
        """
        folder = self.work / ("random-nano" if self.tiny else f"random-{shape}")
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            script, source = ROOT / "benchmarks/random_base.py", NANO
            if not self.tiny:
                source = self.work / shape
                source.mkdir(exist_ok=True)
                text = json.dumps({"model_type": "qwen2", **SHAPES[shape]})
                (source / "config.json").write_text(text)
            words = [sys.executable, script, source, part, "--tokenizer", NANO]
            subprocess.run(list(map(str, words)), check=True)
            part.rename(folder)
        return folder


def set_all(assignments: Sequence[str]) -> list[str]:
    """Return `--set` before each."""
    return [word for one in assignments for word in ("--set", one)]
