"""The two roles: teachers set tasks, students solve them."""

from league.errors import LeagueError

TEACHER = "teacher"
STUDENT = "student"
ROLES = (TEACHER, STUDENT)


def check_role(role: str) -> str:
    """Return the role if it is one; raise LeagueError otherwise."""
    if role not in ROLES:
        raise LeagueError(f"role is {role!r}; expected 'teacher' or 'student'")
    return role


def other_role(role: str) -> str:
    """Return the role that this one plays against."""
    return STUDENT if role == TEACHER else TEACHER
