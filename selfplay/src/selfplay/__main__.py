"""`python -m selfplay` is the `selfplay` command."""

from selfplay.cli import main

main()
