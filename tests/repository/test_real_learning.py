"""The easy tasks of `make real-learning`."""

from pathlib import Path

from programs import python

REAL = Path(__file__).parents[2] / "benchmarks" / "small_model"
SHIPPED = REAL.parents[1] / "selfplay" / "src" / "selfplay" / "data" / "easy_code_o.jsonl"


def test_the_easy_tasks_are_right_and_written_by_their_generator(tmp_path):
    written = tmp_path / "again.jsonl"
    python(REAL / "easy_tasks.py", written)  # it runs them
    assert written.read_bytes() == SHIPPED.read_bytes()
