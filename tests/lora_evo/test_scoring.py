"""How rows are cut into micro-batches, and laid out."""

from hypothesis import given
from hypothesis import strategies as st

from lora_evo.model import Scorer, TokenPair
from lora_evo.model.scoring import micro_batches

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
