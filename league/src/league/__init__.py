"""TrueSkill ratings, prioritised matchmaking and replacement for two populations."""

__version__ = "0.1.0"
