"""How rows are cut into micro-batches, and laid out as stems and branches."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from lora_evo.model import Scorer, TokenPair
from lora_evo.model.scoring import PaddedRows, micro_batches

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
    laid = PaddedRows.of(rows, [0, 0, 0, 1, 1, 1, 1], 0, torch.device("cpu"))
    assert laid.stems.tolist() == [[1, 2, 3], [1, 2, 3], [0, 1, 2]]
    assert laid.stem_members == [0, 1, 1]
    assert laid.branches.tolist() == [[4, 5], [8, 0], [4, 5], [8, 0]]
    assert laid.parents.tolist() == [0, 0, 1, 1]
    assert laid.positions.tolist() == [[3, 4]] * 4
    assert laid.places.tolist() == [2, 9, 10, 2, 2, 11, 5, 13, 14, 5, 5, 15, 7, 8]
    assert laid.targets.tolist() == [4, 5, 6, 7, 8, 9] * 2 + [2, 3]


def test_rows_of_one_prompt_each_are_laid_out_whole():
    rows = [TokenPair((1, 2), (3, 4)), TokenPair((5,), (6,))]
    laid = PaddedRows.of(rows, [0, 1], 9, torch.device("cpu"))
    assert laid.stems.tolist() == [[1, 2, 3], [5, 9, 9]]
    assert laid.branches.numel() == 0
    assert laid.places.tolist() == [1, 2, 3]
