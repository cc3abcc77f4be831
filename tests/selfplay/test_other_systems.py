"""On Windows and macOS runs are read and planned; what needs the sandbox says so in one line."""

from elsewhere import elsewhere, worked

THEIRS = (
    "click, numpy, torch, transformers, safetensors.torch, altair, msgspec, yaml, jinja2, psutil, "
    "transformers.models.qwen2.modeling_qwen2, transformers.generation.utils"
)


def test_training_is_refused_in_one_line_and_leaves_no_folder(tmp_path):
    program = "from selfplay.cli import main\nmain(sys.argv[1:])"
    words = ("train", "--preset", "nano", "--steps", 1, "--quiet", "--out", tmp_path / "run")
    done = elsewhere(program, *words, after=THEIRS, platform="darwin")
    assert done.stderr.splitlines()[-1].startswith("error: the sandbox needs Linux"), done
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_runs_are_planned_shown_and_exported(tmp_path, whole):
    program = """
from selfplay.cli import main
run, out = sys.argv[1:]
for words in (
    "plan nano --gpu 48",
    f"report {run} --html {out}/page.html",
    f"tasks {run} --out {out}/tasks.jsonl",
    f"export {run} s0 --out {out}/s0",
):
    main(words.split())
"""
    worked(program, whole, tmp_path, after=THEIRS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "s0", "tasks.jsonl"]
