"""The same prompts in `evals` and in lm-evaluation-harness: texts, scores, processor time, memory.

    python benchmarks/against_lm_eval.py --peer-python PYTHON --data test.jsonl
        [--benchmark gsm8k] [--model nano] [--adapters 1] [--prompts 20] [--tokens 32]

PYTHON has `lm_eval[hf,math]` and peft. data: rows of gsm8k or math500 as published. The adapters
are of rank 8, with random updates of a few hundredths of the weights; lm-eval runs once for each,
in turns with ours, greedily, in float32, with one thread. Unequal texts and scores are printed.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from benchmarking import parser, show
from evals_engine import with_adapters
from transformers import AutoModelForCausalLM, AutoTokenizer

from evals import Run, read_runs
from lora_evo.model import resolve

TASKS = {"gsm8k": ("gsm8k_cot_zeroshot", "lm-eval-cot"), "math500": ("minerva_math500", "lm-eval")}
WHERE = "import lm_eval, pathlib; print(pathlib.Path(lm_eval.__file__).parent / 'tasks')"


def measured(*words: object) -> tuple[float, float]:
    """Run a command on one thread; return its processor seconds, and the most memory in GB that a
    command has taken until now."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(list(map(str, words)), env=env, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(process.stderr[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, after.ru_maxrss / 2**20


def write_task(folder: Path, python: str, task: str, rows: Path) -> None:
    """Write the task of lm-eval with the rows of a file."""
    tasks = subprocess.run([python, "-c", WHERE], capture_output=True, text=True, check=True)
    (path,) = Path(tasks.stdout.strip()).glob(f"*/{task.replace('_cot_', '-cot-')}.yaml")
    files = {"train": str(rows), "test": str(rows)}
    config = {"include": str(path), "task": "mine", "dataset_path": "json", "dataset_name": None}
    folder.mkdir()
    text = json.dumps({**config, "dataset_kwargs": {"data_files": files}})
    (folder / "mine.yaml").write_text(text)


def theirs(folder: Path) -> list[dict[str, Any]]:
    """The samples that lm-eval logged, in their order."""
    (path,) = folder.rglob("samples_mine_*.jsonl")
    rows = map(json.loads, path.read_text().splitlines())
    return sorted(rows, key=lambda row: int(row["doc_id"]))


def compare(run: Run, rows: list[dict[str, Any]], tokenizer: Any, room: int) -> dict[str, int]:
    """Count equal prompts, texts and scores; print what is unequal. room: for a prompt's tokens; of
    longer ones lm-eval cuts off the beginning, and we ask for fewer tokens."""
    equal = dict.fromkeys(("equal prompts", "equal texts", "equal scores", "cut by lm-eval"), 0)
    by_id = {row["doc_id"]: row for row in rows}
    for number, verdict in enumerate(run.verdicts):
        row = by_id[number]
        text = run.samples[verdict.id, 0].response
        for token in tokenizer.all_special_tokens:
            text = text.replace(token, "")
        scores = {r.get("exact_match") for r in rows if r["doc_id"] == number}
        cut = len(tokenizer.encode(run.prompts[verdict.id])) > room
        equal["cut by lm-eval"] += cut
        equal["equal prompts"] += row["arguments"]["gen_args_0"]["arg_0"] == run.prompts[verdict.id]
        same_text = row["resps"][0][0].strip() == text.strip()
        equal["equal texts"] += same_text
        equal["equal scores"] += float(bool(verdict.correct)) in scores
        if not same_text and not cut:
            print(f"{run.adapter} {verdict.id}: {text!r}, lm-eval {row['resps'][0][0]!r}")
        if float(bool(verdict.correct)) not in scores:
            print(f"{run.adapter} {verdict.id}: {verdict.correct} ({verdict.reason}): {text!r}")
    return equal


def main() -> None:
    options = parser(__doc__, model="nano", adapters=1, prompts=20, tokens=32, benchmark="gsm8k")
    options.add_argument("--peer-python", required=True)
    options.add_argument("--data", type=Path, required=True)
    chosen = options.parse_args()
    task, recipe = TASKS[chosen.benchmark]
    names = [f"a{number}" for number in range(chosen.adapters)]
    model = resolve(chosen.model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        rows = home / "rows.jsonl"
        lines = chosen.data.read_text(encoding="utf-8").splitlines()[: chosen.prompts]
        rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
        base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        context = base.config.max_position_embeddings
        with_adapters(base, names).save_pretrained(home / "adapters")
        folders = {n: home / "adapters" / n for n in names}
        write_task(home / "task", chosen.peer_python, task, rows)
        words = [part for n in names for part in ("--adapter", f"{n}={folders[n]}")]
        words += ["--benchmark", chosen.benchmark, "--data", rows, "--recipe", recipe, "--any-base"]
        words += ["--dtype", "float32", "--max-tokens", chosen.tokens, "--out", home / "ours"]
        ours = measured(sys.executable, "-m", "evals", "run", "--model", model, *words)
        other = [
            measured(
                chosen.peer_python, "-m", "lm_eval", "run", "--model", "hf", "--tasks", "mine",
                "--model_args", f"pretrained={model},peft={folders[n]},dtype=float32",
                "--include_path", home / "task", "--gen_kwargs", f"max_gen_toks={chosen.tokens}",
                "--log_samples", "--output_path", home / n, "--device", "cpu", "--batch_size", "16",
            )
            for n in names
        ]  # fmt: skip
        counts = [
            compare(run, theirs(home / run.adapter), tokenizer, context - chosen.tokens)
            for run in read_runs(home / "ours")
        ]
    seconds = sum(each for each, _ in other)
    total = chosen.prompts * len(names)
    show(
        [
            {
                "benchmark": chosen.benchmark,
                "adapters": len(names),
                **{what: f"{sum(c[what] for c in counts)}/{total}" for what in counts[0]},
                "s": ours[0],
                "s lm-eval": seconds,
                "times less": seconds / ours[0],
                "GB": ours[1],
                "GB lm-eval": max(most for _, most in other),
            }
        ]
    )


if __name__ == "__main__":
    main()
