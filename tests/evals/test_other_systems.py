"""On Windows and macOS math is graded and reported."""

import pytest
from elsewhere import elsewhere
from json_lines import read_rows, write_rows

THEIRS = (
    "click, numpy, torch, transformers, safetensors.torch, mpmath, rich.progress, altair, psutil, "
    "transformers.models.qwen2.modeling_qwen2, transformers.generation.utils"
)


def test_math_is_graded(tmp_path):
    data = write_rows(tmp_path / "data", [{"question": "1 + 1?", "answer": "#### 2"}])
    samples = write_rows(tmp_path / "in", [{"id": 0, "response": "#### 2"}])
    program = """
import evals
from evals.cli import main
assert evals.math_score("", "\\\\boxed{1/2}", "0.5") == 1.0
main(["grade", "gsm8k", sys.argv[1], "--data", sys.argv[2], "--out", sys.argv[3]])
"""
    needs = "click, numpy, mpmath, rich.progress"
    done = elsewhere(program, samples, data, tmp_path / "out", after=needs)
    assert "1 of 1 samples right" in done.stdout, done
    assert [row["correct"] for row in read_rows(tmp_path / "out")] == [True]


@pytest.mark.slow
def test_math_is_asked_and_reported(tmp_path, model_folder):
    data = write_rows(tmp_path / "data", [{"question": "1 + 1?", "answer": "#### 2"}])
    program = """
from evals.cli import main
if sys.argv[1] == "run":
    main(sys.argv[1:])
main(["report", sys.argv[1], "--html", sys.argv[1] + "/page.html"])
"""
    where = ("--model", model_folder, "--data", f"gsm8k={data}", "--out", tmp_path / "scores")
    words = ("run", "--benchmark", "gsm8k", "--recipe", "azr", "--max-tokens", 2, *where)
    done = elsewhere(program, *words, after=THEIRS)
    assert done.returncode == 0, done
    assert done.stderr.count("cannot be locked") == 1
    assert "GSM8K" in elsewhere(program, tmp_path / "scores", after=THEIRS).stdout
    assert (tmp_path / "scores" / "page.html").stat().st_size
