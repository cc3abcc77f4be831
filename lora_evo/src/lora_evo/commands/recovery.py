"""`lora-evo recovery`: the table of a journal of trials, whoever wrote it."""

from pathlib import Path

import click

from lora_evo.commands.frame import FOLDER, json_option
from lora_evo.recovery.journal import read_journal
from lora_evo.recovery.summary import summarise
from lora_evo.recovery.table import markdown, text_table, to_json


@click.command()
@click.argument("trials", type=FOLDER)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown instead of text.")
@json_option
def recovery(trials: Path, as_markdown: bool, as_json: bool) -> None:
    """After how many training steps children equal their parents: the table of TRIALS.

    TRIALS is a JSON Lines file, as `selfplay retention`, `lora-evo retention --train` and
    `lora_evo.trials.run_trials` write it; it may still be growing.
    """
    summary = summarise(read_journal(trials))
    if as_json:
        click.echo(to_json(summary), nl=False)
    elif as_markdown:
        click.echo(markdown(summary), nl=False)
    else:
        click.echo(text_table(summary))
