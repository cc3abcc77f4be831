"""Against made-up truth: predictions and intervals."""

from league import LeagueConfig, Simulation, simulate


def test_predictions_and_intervals_are_sound():
    result = simulate(Simulation(worlds=4, rounds=40))
    assert result.rmse < 0.05
    assert 0.90 <= result.coverage <= 0.995
    assert result.broken_last is None


def test_a_model_that_expects_drift_covers_learners_better():
    learners = {"drift": 0.42, "worlds": 2, "rounds": 30}
    stiff = simulate(Simulation(**learners))
    loose = simulate(Simulation(**learners, config=LeagueConfig(tau=0.42)))
    assert loose.coverage > stiff.coverage + 0.1
    assert loose.rmse < stiff.rmse


def test_another_seed_is_another_world():
    configs = LeagueConfig(), LeagueConfig(seed=1)
    first, other = (simulate(Simulation(1, 1, config=config)) for config in configs)
    assert first != other
