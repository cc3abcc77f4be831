"""`python -m code_verifier` is the `code-verifier` command."""

from code_verifier.cli import main

main()
