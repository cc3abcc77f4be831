"""`python -m evals` is the `evals` command."""

from evals.cli import main

main()
