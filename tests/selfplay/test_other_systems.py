"""On Windows and macOS runs are read and planned; what needs the sandbox says so in one line."""

import pytest
from elsewhere import elsewhere

THEIRS = (
    "click, numpy, torch, transformers, safetensors.torch, msgspec, yaml, jinja2, psutil, "
    "transformers.models.qwen2.modeling_qwen2, transformers.generation.utils"
)


PROGRAM = """
from selfplay.cli import main
run, out, page = sys.argv[1:]
for words in (
    "plan nano --gpu 48",
    f"report {run} {page}",
    f"tasks {run} --out {out}/tasks.jsonl",
    f"export {run} s0 --out {out}/s0",
):
    main(words.split())
main(f"train --preset nano --steps 1 --quiet --out {out}/run".split())
"""


@pytest.mark.parametrize(
    ("platform", "html"),
    [
        ("win32", False),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in ("win32", "darwin")),
    ],
)
def test_runs_are_planned_shown_and_exported_and_training_is_refused(
    tmp_path, whole, platform, html
):
    words = f"--html {tmp_path}/page.html" if html else ""
    after = f"{THEIRS}, altair" if html else THEIRS
    done = elsewhere(PROGRAM, whole, tmp_path, words, after=after, platform=platform)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the sandbox needs Linux"), done
    assert done.returncode in (1, 2)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"s0", "tasks.jsonl", *(["page.html"] * html)}
