"""LiveCodeBench: memory and time of a release in shards, read and asked for its hidden tests.

    python benchmarks/livecodebench_memory.py [--shards 3] [--rows 40] [--mib 4]

Writes shards of `rows` problems with `mib` MiB of hidden tests each, and reads them in a process
of its own.
"""

import base64
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarking import MIB, alone, memory, parser, show

from code_verifier import read_tests
from evals.code.livecodebench import read_questions


def write(folder: Path, shards: int, rows: int, mib: int) -> None:
    """Write the shards, of texts that do not compress."""
    for shard in range(shards):
        problems = []
        for number in range(rows):
            text = base64.b64encode(os.urandom(mib * MIB * 3 // 4)).decode()
            test = {"input": text, "output": "", "testtype": "stdin"}
            problems.append(
                {
                    "question_id": f"p{shard}-{number}",
                    "question_content": "Do it.",
                    "contest_date": "2024-08-01T00:00:00",
                    "starter_code": "",
                    "private_test_cases": json.dumps([test]),
                }
            )
        lines = "".join(json.dumps(row) + "\n" for row in problems)
        (folder / f"test{shard}.jsonl").write_text(lines)


def measure(folder: Path) -> None:
    """Print what reading a folder takes, as JSON."""
    begin, before = time.perf_counter(), memory("VmHWM")
    questions = read_questions(folder)
    loaded, peak = time.perf_counter(), memory("VmHWM")
    for question in questions:
        read_tests(question.problem())
    row = {
        "shards": folder.name,
        "problems": len(questions),
        "MiB on disk": sum(file.stat().st_size for file in folder.iterdir()) // MIB,
        "before, MiB": before // MIB,
        "peak, loading": peak // MIB,
        "peak, all tests asked": memory("VmHWM") // MIB,
        "s, loading": loaded - begin,
        "s, all tests": time.perf_counter() - loaded,
    }
    print(json.dumps(row))


def main() -> None:
    options = parser(__doc__, shards=3, rows=40, mib=4)
    options.add_argument("--folder", type=Path, help="measure only this")
    chosen = options.parse_args()
    if chosen.folder:
        measure(chosen.folder)
        return
    with TemporaryDirectory() as place:
        write(Path(place), chosen.shards, chosen.rows, chosen.mib)
        show([alone(__file__, "--folder", place)])


if __name__ == "__main__":
    main()
