"""A league as columns: every row complete, every member and match there."""

import math

from league import League, Outcome, read_league


def test_columns_hold_lives_matches_and_ratings(tmp_path):
    with League(tmp_path / "league", teachers=["t0", "t1"], students=["s0", "s1"]) as league:
        for number in range(1, 4):
            for pair in league.pair(number):
                league.record(pair, Outcome(tasks=4, valid=4, attempts=8, solved=6, unsolved=0))
        league.replace("t0", "t2", parents=["t1"], operator="copy")
    found = read_league(tmp_path / "league")
    assert found.members["name"] == ["t0", "t1", "s0", "s1", "t2"]
    assert found.members["ended"] == [3, None, None, None, None]
    assert found.members["parents"][-1] == ["t1"]
    assert found.matches["round"] == [1, 1, 2, 2, 3, 3]
    assert set(found.matches["solved"]) == {6}
    for table in (found.members, found.matches, found.ratings):
        assert len({len(column) for column in table.values()}) == 1
    last = dict(zip(found.ratings["member"], found.ratings["mu"], strict=True))
    expected = dict(zip(found.members["name"], found.members["mu"], strict=True))
    assert all(math.isclose(last[name], expected[name]) for name in ("t1", "t2", "s0", "s1"))
