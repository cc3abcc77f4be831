"""How rows are cut into micro-batches, and laid out."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from lora_evo.model import Scorer, TokenPair
from lora_evo.model.scoring import LaidRows, micro_batches

LONGEST = 20
rows_of_members = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([(1,) * n for n in (1, 2, 5, LONGEST)]),
        st.integers(1, LONGEST),
    ),
    max_size=40,
)


@given(rows_of_members, st.integers(1, 200))
def test_batches_hold_every_row_once_within_the_budget(drawn, tokens):
    rows = [TokenPair(prompt, (7,) * n) for _, prompt, n in drawn]
    member_of = {id(row): member for row, (member, _, _) in zip(rows, drawn, strict=True)}
    batches = list(micro_batches(rows, tokens, lambda row: member_of[id(row)]))
    assert sorted(id(row) for batch in batches for row in batch) == sorted(map(id, rows))
    for batch in batches:
        members = [member_of[id(row)] for row in batch]
        assert members == sorted(members)
        assert len(batch) == 1 or Scorer.tokens(batch, members) <= tokens
    if len(batches) > 1:
        whole = Scorer.tokens(rows, [member_of[id(row)] for row in rows])
        assert whole > tokens


def test_attempts_at_one_task_are_in_one_batch():
    prompts = [(n,) * 30 for n in range(6)]
    rows = [TokenPair(prompt, (9,) * n) for n in (3, 4, 5, 6) for prompt in prompts]
    batches = list(micro_batches(rows, 2 * (30 + 4 * 6)))
    assert [len({row.prompt_ids for row in batch}) for batch in batches] == [2, 2, 2]
    assert [len(batch) for batch in batches] == [8, 8, 8]


def test_a_prompt_is_laid_out_once_for_its_member():
    prompt = (1, 2, 3)
    rows = [TokenPair(prompt, (4, 5, 6)), TokenPair(prompt, (7,)), TokenPair(prompt, (8, 9))] * 2
    rows.append(TokenPair((1,), (2, 3)))
    laid = LaidRows.packed(rows, [0, 0, 0, 1, 1, 1, 1], torch.device("cpu"))
    assert laid.ids.tolist() == [[1, 2, 3, 4, 5, 8, 1, 2, 3, 1, 2, 4, 5, 8]]
    assert laid.members == [0] * 6 + [1] * 8
    assert laid.positions.tolist() == [[0, 1, 2, 3, 4, 3, 0, 1, 2, 0, 1, 3, 4, 3]]
    assert laid.places.tolist() == [2, 3, 4, 2, 2, 5, 8, 11, 12, 8, 8, 13, 9, 10]
    assert laid.targets.tolist() == [4, 5, 6, 7, 8, 9] * 2 + [2, 3]
    stems, branches = laid.packing.blocks
    assert stems.keys.tolist() == [[0, 1, 2], [6, 7, 8], [9, 10, 0]]
    assert branches.keys[:2].tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 5, 0]]
    assert branches.keys[2:].tolist() == [[6, 7, 8, 11, 12], [6, 7, 8, 13, 0]]
    assert branches.positions.tolist() == [[0, 1, 2, 3, 4]] * 4
    assert laid.packing.places.tolist() == [0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 13, 14, 15]


def test_rows_of_one_prompt_each_are_packed_whole():
    rows = [TokenPair((1, 2), (3, 4)), TokenPair((5,), (6,))]
    laid = LaidRows.packed(rows, [0, 1], torch.device("cpu"))
    assert laid.ids.tolist() == [[1, 2, 3, 5]]
    assert len(laid.packing.blocks) == 1
    assert laid.places.tolist() == [1, 2, 3]


def test_rows_that_a_model_cannot_read_packed_are_padded():
    rows = [TokenPair((1, 2), (3, 4)), TokenPair((5,), (6,))]
    laid = LaidRows.padded(rows, [0, 1], 9, torch.device("cpu"))
    assert laid.ids.tolist() == [[1, 2, 3], [5, 9, 9]]
    assert laid.places.tolist() == [1, 2, 3]
