"""Rows to train on and rows to measure on."""

import json

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
