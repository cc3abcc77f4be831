"""`code-verifier doctor`: what protects this machine."""

import json
from dataclasses import asdict

import click

from code_verifier.commands.exits import exit_code, tell
from code_verifier.commands.options import as_json
from code_verifier.commands.table import print_table
from code_verifier.sandbox.doctor import diagnose


@click.command()
@as_json
@exit_code
def doctor(as_json: bool) -> int:
    """Say which layers of protection are active here, and what the missing ones cost."""
    found = diagnose()
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return 0 if found.works else 1
    click.echo(f"{found.system} {found.kernel} on {found.machine}, Python {found.python}")
    print_table(
        [
            (
                layer.name,
                "active" if layer.active else "MISSING",
                "required" if layer.required else "",
                f"without it {layer.cost}",
            )
            for layer in found.layers
        ],
        "<",
    )
    if found.error:
        tell(f"error: {found.error}")
    return 0 if found.works else 1
