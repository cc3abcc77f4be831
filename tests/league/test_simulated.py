"""Ratings of members of known skill: predictions, intervals, and a teacher of broken tasks."""

import numpy as np

from league import League, LeagueConfig
from league.ratings import Z95
from simulated import STUDENTS, TEACHERS, play, win_chance


def errors(path, worlds, rounds, broken=""):
    """RMSE of predicted solve rates, coverage of 95 % intervals, and how often t3 ends last.

    Over all pairs of sound members in the last three quarters of the rounds.
    """
    config = LeagueConfig()
    scale = config.model.performance_scale
    misses, covered, last = [], [], 0

    def look(league, skills):
        if 4 * len(league.state.rounds) < rounds:
            return
        expected = league.payoff().expected
        for i, teacher in enumerate(name for name in TEACHERS if name != broken):
            for j, student in enumerate(STUDENTS):
                gap = skills[student] - skills[teacher]
                misses.append(expected[i][j] - float(win_chance(np.array(gap), scale)))
                one, two = league.rating(teacher), league.rating(student)
                doubt = np.hypot(one.sigma, two.sigma)
                covered.append(abs(two.mu - one.mu - gap) <= Z95 * doubt)

    for world in range(worlds):
        place = path / f"{world}"
        play(place, rounds, config.tau, world=world, config=config, broken=broken, look=look)
        with League(place, read_only=True) as league:
            last += league.leaderboard("teacher")[-1].member == TEACHERS[-1]
    return float(np.sqrt(np.mean(np.square(misses)))), float(np.mean(covered)), last


def test_predictions_and_intervals_are_sound(tmp_path):
    rmse, coverage, _ = errors(tmp_path, 4, 40)
    assert rmse < 0.05
    assert 0.90 <= coverage <= 0.995


def test_a_teacher_of_broken_tasks_ends_last_and_spoils_no_other_rating(tmp_path):
    rmse, coverage, last = errors(tmp_path, 1, 60, TEACHERS[-1])
    assert rmse < 0.06
    assert coverage > 0.9
    assert last == 1
