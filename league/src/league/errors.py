"""What can go wrong, each with a class of its own under one root."""


class LeagueError(ValueError):
    """Anything this package refuses; the message says what was found and what was expected."""


class UnknownMember(LeagueError):
    """A name that no member of this league has ever had."""


class ConflictingResult(LeagueError):
    """A match that is already recorded came back with other numbers."""


class UnreadableLeague(LeagueError):
    """Files that are missing, damaged, or written by a newer version."""


class LeagueLocked(LeagueError):
    """Another process has this league open for writing."""
