"""The names of a run's members, and the roles that they tell."""

from selfplay.config.run_config import RunConfig


def role_of(member: str) -> str:
    """Return the role that a member's name tells."""
    return {"t": "teacher", "s": "student"}.get(member[0], "agent")


def founders(config: RunConfig) -> tuple[list[str], list[str]]:
    """Return the names of the first teachers and students; one agent in mode azr."""
    if config.mode == "azr":
        return ["a0"], ["a0"]
    return (
        [f"t{i}" for i in range(config.teachers)],
        [f"s{i}" for i in range(config.students)],
    )


def all_founders(config: RunConfig) -> list[str]:
    """Return the names of all first members in the order of their places."""
    teachers, students = founders(config)
    return list(dict.fromkeys(teachers + students))
