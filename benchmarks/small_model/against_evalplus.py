"""One set of greedy samples, graded by evalplus and by us; and the same prompts through our engine.

    python benchmarks/small_model/against_evalplus.py BASE HumanEvalPlus.jsonl.gz OUT

Plain transformers continues evalplus' chat prompts of a model folder BASE greedily, evalplus
sanitises them, and `evalplus.evaluate` and `evals grade` judge the same file: pass@1 of both, and
the tasks on which they differ. Then `evals run` with the same recipe makes texts of its own, and
those that differ from transformers' are counted. What OUT holds already is not made again.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from evalplus.sanitize import sanitize
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteria

from evals import RECIPES
from evals.recipes import render

NAME = "humaneval_plus"


def main() -> None:
    """Generate, grade twice, run, compare."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    for name in ("base", "data", "out"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    base, data, out = args.base, args.data, args.out
    out.mkdir(parents=True, exist_ok=True)
    tasks = [json.loads(line) for line in gzip.decompress(data.read_bytes()).splitlines()]
    samples = out / "samples.jsonl"
    raw = out / "raw.jsonl"
    generate(base, tasks, raw)
    plain = {row["task_id"]: row["text"] for row in map(json.loads, raw.open())}
    write(
        samples,
        [
            {"task_id": t["task_id"], "solution": sanitize(plain[t["task_id"]], t["entry_point"])}
            for t in tasks
        ],
    )
    tool = Path(sys.executable).parent
    (out / "samples_eval_results.json").unlink(missing_ok=True)
    evaluate = [tool / "evalplus.evaluate", "humaneval", "--samples", samples, "--parallel", "1"]
    environment = os.environ | {"HUMANEVAL_OVERRIDE_PATH": str(unzipped(data, out))}
    subprocess.run([*map(str, evaluate)], check=True, env=environment, stdout=subprocess.DEVNULL)
    theirs = {
        task: rows[0]["base_status"] == rows[0]["plus_status"] == "pass"
        for task, rows in json.loads((out / "samples_eval_results.json").read_text())[
            "eval"
        ].items()
    }
    grade = [tool / "evals", "grade", NAME, samples, "--data", data, "--out", out / "ours.jsonl"]
    subprocess.run([*map(str, grade)], check=True)
    ours = {row["id"]: row["correct"] for row in map(json.loads, (out / "ours.jsonl").open())}
    differ = [task for task in ours if ours[task] != theirs[task]]
    print(f"evalplus {sum(theirs.values())} of {len(theirs)}, ours {sum(ours.values())}: {differ}")
    run = [tool / "evals", "run", "--model", base, "--benchmark", NAME, "--data", data]
    run += ["--recipe", "evalplus", "--dtype", "float32", "--out", out / "run"]
    subprocess.run([*map(str, run)], check=True)
    lines = (out / "run" / "base" / NAME / "samples.jsonl").open()
    texts = {row["id"]: row["response"] for row in map(json.loads, lines)}
    other = [task for task in texts if texts[task] != plain[task]]
    print(f"{len(other)} of {len(texts)} texts of our engine differ from transformers': {other}")


def generate(base: Path, tasks: list[dict[str, str]], raw: Path) -> None:
    """Greedy continuations one by one, so that none is padded, each cut at the first stop text of
    the recipe; what is in `raw` is not made again."""
    names = {row["task_id"] for row in map(json.loads, raw.open())} if raw.exists() else set()
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    template = RECIPES["evalplus"].template(NAME)
    prompts = {
        task["task_id"]: render(RECIPES["evalplus"], NAME, {"prompt": task["prompt"]}, tokenizer)
        for task in tasks
        if task["task_id"] not in names
    }
    for number, (task, prompt) in enumerate(prompts.items(), 1):
        tokens = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        width = tokens["input_ids"].shape[1]
        with torch.inference_mode():
            (whole,) = model.generate(
                **tokens,
                do_sample=False,
                max_new_tokens=template.max_tokens,
                stopping_criteria=[Stops(tokenizer, template.stop, width)],
                pad_token_id=tokenizer.pad_token_id,
            )
        text = tokenizer.decode(whole[width:], skip_special_tokens=True)
        cuts = [text.index(stop) for stop in template.stop if stop in text]
        text = text[: min(cuts)] if cuts else text
        with raw.open("a") as file:
            file.write(json.dumps({"task_id": task, "text": text}) + "\n")
        print(f"{number} of {len(prompts)}", flush=True)


class Stops(StoppingCriteria):
    """Ends a row whose newest tokens hold a stop text."""

    def __init__(self, tokenizer, stops: tuple[str, ...], width: int) -> None:
        self.tokenizer, self.stops, self.width = tokenizer, stops, width

    def __call__(self, input_ids, scores, **options) -> torch.Tensor:
        tails = self.tokenizer.batch_decode(
            input_ids[:, max(self.width, input_ids.shape[1] - 16) :]
        )
        return torch.tensor([any(stop in tail for stop in self.stops) for tail in tails])


def unzipped(data: Path, out: Path) -> Path:
    """Write the plain file that evalplus reads from a given place."""
    place = out / "HumanEvalPlus.jsonl"
    place.write_bytes(gzip.decompress(data.read_bytes()))
    return place


def write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
