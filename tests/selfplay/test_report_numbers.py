"""What the report computes and how it writes numbers."""

import pytest

from selfplay.report.reading.trend import smooth, thin, trend
from selfplay.report.words import clip, duration, figure


def test_trend_compares_quarters():
    rising = [(i, float(i)) for i in range(1, 13)]
    change = trend(rising)
    assert (change.first.mean, change.last.mean, change.verdict) == (2.0, 11.0, "rose")
    assert change.first.spread == pytest.approx(1.0)
    assert trend([(i, -y) for i, y in rising]).verdict == "fell"
    assert trend([(i, (-1.0) ** i) for i in range(40)]).verdict == "no clear change"
    assert trend([(i, 2.0) for i in range(40)]).verdict == "no clear change"
    assert trend([(1, 0.0), (2, 1.0)]).verdict == "too few steps"
    assert trend([(1, None), (2, 1.0)]) is None


def test_smoothing_keeps_constants_and_skips_gaps():
    points = [(i, None if i == 5 else 3.0) for i in range(30)]
    assert all(y == pytest.approx(3.0) for _, y in smooth(points))
    assert len(smooth(points)) == 29
    assert smooth([(1, None)]) == []
    assert len(thin([(i, 1.0) for i in range(1001)])) <= 400


def test_words_and_numbers():
    assert [figure(x) for x in (0, 0.12345, -0.5, 12.34, 123456.0)] == [
        "0",
        "0.123",
        "−0.500",
        "12.3",
        "123,456",
    ]
    assert figure(0.1234, share=True) == "12.3 %"
    assert [duration(s) for s in (4.26, 59, 250, 7500)] == [
        "4.3 s",
        "59 s",
        "4 min 10 s",
        "2 h 5 min",
    ]
    assert clip("abcdef", 4) == "abcd\n… 2 more characters"
