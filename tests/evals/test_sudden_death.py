"""An evaluation killed at any change of its folder goes on to the same files; nothing is lost."""

import json
from itertools import count
from pathlib import Path

from mortal import changes_until_death

from evals import Completion, evaluate, load_benchmark


class EchoEngine:
    """Answers every request by its seed, and notes on disk how often it was asked."""

    max_rows = 4

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def generate(self, requests):
        with self.notes.open("a") as file:
            file.writelines(f"{request.seed}\n" for request in requests)
        return [Completion(f"<|answer|>{r.seed % 9}", (5, 1), (0.0, 0.0), "stop") for r in requests]

    def close(self):
        pass


def act(home):
    benchmark = load_benchmark("nano_code_o")
    engine = EchoEngine(home.parent / "notes")
    evaluate(engine, benchmark, None, n=2, temperature=1.0, limit=6, out=home / "scores")


def files(home):
    found = {p.name: p.read_bytes() for p in (home / "scores").iterdir()}
    result = json.loads(found["result.json"])
    return found | {"result.json": result}


def test_killed_at_every_change(tmp_path):
    whole = tmp_path / "whole" / "home"
    made = changes_until_death(lambda: act(whole), whole, None)
    assert made > 8
    expected = files(whole)
    for k in count(1):
        home = tmp_path / str(k) / "home"
        home.parent.mkdir()
        died = changes_until_death(lambda h=home: act(h), home, k) is None
        if died:
            assert changes_until_death(lambda h=home: act(h), home, None)
        assert files(home) == expected, f"killed at change {k} of {made}"
        asked = (home.parent / "notes").read_text().split()
        # A batch whose answers were lost with the process is asked once more, nothing else is.
        assert len(asked) - len(set(asked)) <= 4
        if not died:
            break
