"""The `lora-evo` command."""

import click

from lora_evo import __version__
from lora_evo.commands.children import cross, mutate, resize
from lora_evo.commands.diversity import distance, diversity
from lora_evo.commands.frame import Commands
from lora_evo.commands.inspection import inspect, lineage, operators, verify
from lora_evo.commands.retention import recovery, retention


@click.group(cls=Commands)
@click.version_option(__version__, prog_name="lora-evo")
def main() -> None:
    """Evolve LoRA adapters: children from PEFT directories, without the base model."""


for command in (
    operators, mutate, cross, resize, inspect, verify, lineage, distance, diversity, retention,
    recovery,
):  # fmt: skip
    main.add_command(command)
