"""`lora-evo operators`: the list of operators, or the page of one."""

import click

from lora_evo.commands.frame import json_option, print_json
from lora_evo.operators.page import operator_page, operator_pages, table


@click.command()
@click.argument("name", required=False)
@json_option
def operators(name: str | None, as_json: bool) -> None:
    """List the operators, or describe the one called NAME: formula, source, what it preserves."""
    if name is not None:
        page = operator_page(name)
        if as_json:
            print_json({**page.to_dict(), "description": page.description})
        else:
            click.echo(page.text())
    elif as_json:
        print_json([page.to_dict() for page in operator_pages()])
    else:
        click.echo(table(operator_pages()))
        click.echo("More about one of them: lora-evo operators NAME")
