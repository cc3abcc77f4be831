"""Rows to train on and rows to measure on."""

from lora_evo.probe_rows import ProbeRow
from lora_evo.training_rows import split_rows


def test_a_split_keeps_all_rows_of_a_prompt_on_one_side(home):
    rows = [ProbeRow(n, row(n % 45).prompt, f"{LETTERS[n % 7]}") for n in range(90)]
    found = split_rows(rows)
    assert (len(found.train), len(found.held_out)) == (72, 18)
    assert not {r.prompt for r in found.train} & {r.prompt for r in found.held_out}
    assert split_rows(rows) == found
    assert split_rows(rows[::-1]).fingerprint != found.fingerprint
    whole = read_training_rows(home / "rows.jsonl")
    assert (len(whole.train), len(whole.held_out)) == (48, 12)
