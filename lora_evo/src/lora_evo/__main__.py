"""`python -m lora_evo` is the `lora-evo` command."""

from lora_evo.cli import main

main()
