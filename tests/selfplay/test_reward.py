import pytest

from selfplay.learning.reward import (
    StudentRewards,
    azr_proposer_reward,
    student_reward,
    teacher_reward,
)


@pytest.mark.parametrize(
    ("valid", "rho", "populora", "azr"),
    [
        (False, 0.0, -1.0, -1.0),
        (False, 0.5, -1.0, -1.0),
        (True, 0.0, 0.0, -0.5),
        (True, 0.125, 0.875, 0.875),
        (True, 0.5, 0.5, 0.5),
        (True, 0.875, 0.125, 0.125),
        (True, 1.0, 0.0, -0.5),
    ],
)
def test_proposer_table(valid, rho, populora, azr):
    assert teacher_reward(valid, rho) == populora
    assert azr_proposer_reward(valid, rho) == azr


@pytest.mark.parametrize(
    ("well_formed", "score", "expected"),
    [
        (True, 1.0, 1.0),
        (True, 0.25, 0.25),
        (True, 0.0, -0.5),
        (False, 0.0, -1.0),
        (False, 1.0, -1.0),
    ],
)
def test_student_table(well_formed, score, expected):
    assert student_reward(well_formed, score) == expected


def test_student_values_are_configurable():
    values = StudentRewards(right=2.0, wrong=0.0, ill_formed=-3.0)
    found = [student_reward(w, s, values) for w, s in [(True, 1.0), (True, 0.0), (False, 0.0)]]
    assert found == [2.0, 0.0, -3.0]


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rates_outside_0_to_1_are_refused(rate):
    for function in (teacher_reward, azr_proposer_reward, student_reward):
        with pytest.raises(ValueError, match="expected a number from 0 to 1"):
            function(True, rate)
