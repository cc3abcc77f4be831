"""`selfplay retention`: which operators' children recover, and after how many steps."""

from pathlib import Path

import click

from evals.atomic import write_text
from selfplay.config.preset import extended, read_preset
from selfplay.console import one_line_errors, read_yaml, silence_transformers
from selfplay.errors import SelfplayError

PATH = click.Path(path_type=Path)


@click.command()
@click.option("--out", required=True, type=PATH, help="A directory; an existing one is continued.")
@click.option("--preset", default="nano", show_default=True, help="Learner and rollouts.")
@click.option("--config", "config_file", type=PATH, help="A YAML file instead of a preset.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Any key of it.")
@click.option("--operators", metavar="A,B,...", help="Default: all known ones.")
@click.option(
    "--treatment", "extra", multiple=True, metavar="'A K=V'", help="One with other settings."
)
@click.option("--parents", type=int, help="Parents brought up (default 3, and a sibling).")
@click.option("--parent", "given", multiple=True, type=PATH, help="An adapter to start from.")
@click.option("--tasks", "task_file", type=PATH, help="JSON Lines of `selfplay tasks`.")
@click.option("--held-out", type=int, help="Tasks that fitness is measured on (default 384).")
@click.option("--seeds", type=int, help="Seeds for each treatment and parent (default 3).")
@click.option("--steps", type=int, help="Steps before a trial is censored (default 30).")
@click.option("--warm-up", "warm_up_steps", type=int, help="Supervised steps of a parent (150).")
@click.option("--practice", "practice_steps", type=int, help="Its steps as a student (16).")
@click.option("--full", is_flag=True, help="Train children on after they have recovered.")
@click.option("--quiet", is_flag=True, help="No progress.")
def retention(
    out: Path,
    preset: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    operators: str | None,
    extra: tuple[str, ...],
    given: tuple[Path, ...],
    task_file: Path | None,
    steps: int | None,
    full: bool,
    quiet: bool,
    **counts: int | None,
) -> None:
    """Train children of every operator and see after how many steps they equal their parents.

    Writes trials.jsonl (the journal), retention.md and retention.json into --out. What is done
    stays done: the same command goes on after an interruption, and one with more treatments or
    seeds adds to it.
    """
    with one_line_errors():
        from lora_evo.recovery.journal import read_journal
        from lora_evo.recovery.plan import Treatment, read_treatment
        from lora_evo.recovery.protocol import checks_up_to
        from lora_evo.recovery.summary import summarise
        from lora_evo.recovery.table import markdown, text_table, to_json
        from selfplay.config.run_config import override, read_config
        from selfplay.retention.experiment import (
            RetentionSettings,
            every_operator,
            run_experiment,
        )

        data = extended(read_yaml(config_file)) if config_file else read_preset(preset)
        for assignment in assignments:
            override(data, assignment)
        values: dict[str, object] = {k: v for k, v in counts.items() if v is not None}
        if steps is not None:
            values["checks"] = checks_up_to(steps)
        settings = RetentionSettings(**values, stop_early=not full)  # type: ignore[arg-type]
        names = [] if operators is None else [n.strip() for n in operators.split(",") if n.strip()]
        if operators is not None and not names and not extra:
            raise SelfplayError("--operators names none; leave it out for all")
        treatments = (
            every_operator() if operators is None else tuple(Treatment(name) for name in names)
        ) + tuple(map(read_treatment, extra))
        silence_transformers()
        journal = run_experiment(
            read_config(data),
            out,
            settings,
            treatments,
            given=given,
            task_file=task_file,
            say=(lambda text: None) if quiet else (lambda text: click.echo(text, err=True)),
        )
        summary = summarise(read_journal(journal))
        write_text(out / "retention.md", markdown(summary))
        write_text(out / "retention.json", to_json(summary))
        click.echo(text_table(summary))
        click.echo(f"journal: {journal}; table: {out / 'retention.md'}")
