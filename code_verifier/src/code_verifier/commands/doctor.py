"""`code-verifier doctor`: what protects this machine."""

import json
from dataclasses import asdict

import click

from code_verifier.commands.exits import exit_code
from code_verifier.commands.options import as_json
from code_verifier.commands.terminal import print_table, tell
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
    rows = []
    for layer in found.layers:
        state = "active" if layer.active else "MISSING"
        needed = "required" if layer.required else ""
        rows.append((layer.name, state, needed, f"without it {layer.cost}"))
    print_table(rows, "<")
    if found.error:
        tell(f"error: {found.error}")
    return 0 if found.works else 1
