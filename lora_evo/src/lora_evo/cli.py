"""The `lora-evo` command."""

import click

from lora_evo import __version__
from lora_evo.commands.adapters import distance, inspect, lineage
from lora_evo.commands.children import cross, merge, mutate, operators, verify
from lora_evo.commands.retention import retention
from lora_evo.terminal import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lora-evo")
def main() -> None:
    """Make children of LoRA adapters, and compare them.

    Adapters are PEFT directories; the base model is not needed to mutate, cross or merge them. An
    adapter's update is what it adds to the weights of the base: scale * B A in each module.
    """


for command in (operators, mutate, cross, merge, verify, inspect, distance, lineage, retention):
    main.add_command(command)
