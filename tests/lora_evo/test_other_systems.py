"""On Windows and macOS children are made, inspected and verified."""

from elsewhere import worked


def test_children_are_made_inspected_and_verified(home):
    program = """
from lora_evo.cli import main
for words in (
    "mutate svd_structured p1 --out c --seed 1",
    "cross slot_swap c p2 --out d --seed 2",
    "merge p1 p2 --out e",
    "mutate svd_structured p2 --out c --seed 1 --overwrite",
    "inspect d",
    "verify e",
):
    main(words.split())
"""
    assert worked(program, after="click, numpy, safetensors.torch, torch").endswith(
        "e: identical to the child made again from its parents\n"
    )
    assert not list(home.glob(".*"))
