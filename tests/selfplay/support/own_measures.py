"""Measures of a user's own, for plans that name them."""


def steps(trial):
    """How many steps the run has had."""
    return trial.run.last


def easy(trial):
    """Gain at the end on tasks of level 1."""
    members = [*trial.gains.values()][-1].values()
    return [
        sum(gains) / len(gains)
        for held, *gains in zip(trial.tasks, *members, strict=True)
        if held.level == 1
    ]


MEASURES = {
    "steps done": ("steps", steps),
    "easy tasks": ("points", easy),
    "nothing": ("", lambda trial: None),
}
FAILING = {"share": ("%", lambda trial: 1 / 0)}
