"""Against made-up truth: predictions, intervals, and the end of a broken teacher."""

from league import LeagueConfig, Simulation, simulate


def test_predictions_and_intervals_are_sound():
    result = simulate(Simulation(worlds=4, rounds=40))
    assert result.rmse < 0.05
    assert 0.90 <= result.coverage <= 0.995
    assert result.broken_last is None


def test_a_broken_teacher_ends_last():
    result = simulate(Simulation(worlds=3, rounds=25, broken=True))
    assert result.broken_last == 1.0
    assert result.rmse < 0.06


def test_a_model_that_expects_drift_covers_learners_better():
    learners = {"drift": 0.42, "worlds": 2, "rounds": 30}
    stiff = simulate(Simulation(**learners))
    loose = simulate(Simulation(**learners, config=LeagueConfig(tau=0.42)))
    assert loose.coverage > stiff.coverage + 0.1
    assert loose.rmse < stiff.rmse


def test_another_seed_is_another_world_and_one_teacher_is_enough():
    first, other = (simulate(Simulation(1, 2, rounds=1, worlds=1, seed=n)) for n in (0, 1))
    assert first != other
