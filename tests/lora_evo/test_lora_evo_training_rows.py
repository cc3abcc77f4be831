"""Rows to train on and rows to measure on."""

import json

import pytest

from lora_evo import LoraEvoError
from lora_evo.probing.prompt_rows import ProbeRow
from lora_evo.recovery.training_rows import read_training_rows, split_rows


def test_a_split_keeps_all_rows_of_a_prompt_on_one_side():
    rows = [ProbeRow(n, f"prompt {n % 45}", f"answer {n % 7}") for n in range(90)]
    found = split_rows(rows)
    assert (len(found.train), len(found.held_out)) == (72, 18)
    assert not {r.prompt for r in found.train} & {r.prompt for r in found.held_out}
    assert split_rows(rows) == found
    assert split_rows(rows[::-1]).fingerprint != found.fingerprint


def test_a_fifth_of_a_file_is_held_out(tmp_path):
    lines = [json.dumps({"prompt": f"p{n}", "completion": "c"}) for n in range(60)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    whole = read_training_rows(tmp_path / "rows.jsonl")
    assert (len(whole.train), len(whole.held_out)) == (48, 12)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (range(60), "60 held-out rows are among the training rows"),
        (range(60, 65), "5 rows are held out, expected at least 8"),
        (None, "held-out rows: line 2 has no completion"),
    ],
)
def test_a_file_of_its_own_to_measure_on(tmp_path, rows, reason):
    def write(name, numbers):
        found = [{"prompt": f"p{n}", "completion": "c"} for n in numbers or range(60, 70)]
        if numbers is None:
            del found[1]["completion"]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in found))
        return tmp_path / name

    train = write("train.jsonl", range(60))
    with pytest.raises(LoraEvoError, match=reason):
        read_training_rows(train, write("held.jsonl", rows))
    apart = read_training_rows(train, write("other.jsonl", range(90, 98)))
    assert (len(apart.train), len(apart.held_out)) == (60, 8)
