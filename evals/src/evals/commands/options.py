"""What commands of the `evals` CLI share: exits without tracebacks, and groups of options."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import click

from code_verifier import CodeVerifierError, SandboxUnavailable
from evals.errors import EngineStopped, EvalsError

_P = ParamSpec("_P")


def clean_exit(command: Callable[_P, int]) -> Callable[_P, None]:
    """Turn the command's return value and its errors into an exit code and one line.

    0: done. 1: the work found a problem or was stopped. 2: wrong usage. 130: interrupted.
    """

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except SandboxUnavailable as error:
            code = _fail(str(error), 1)
        except (EvalsError, CodeVerifierError) as error:
            code = _fail(str(error), 1 if isinstance(error, EngineStopped) else 2)
        except KeyboardInterrupt:
            code = _fail("interrupted; finished samples are kept, the same command goes on", 130)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            misplaced = isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError)
            code = _fail(f"{place}{error.strerror or error}", 2 if misplaced else 1)
        sys.exit(code)

    return wrapped


def stack(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Several click options as one decorator, in reading order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
allow_weak = click.option(
    "--allow-weak", is_flag=True, help="Judge even where the sandbox has no system-call filter."
)

model_options = stack(
    click.option("--model", help="Base model: folder, hub name, or nano; default: that of --run."),
    click.option(
        "--adapter",
        "adapters",
        multiple=True,
        metavar="[NAME=]DIR",
        help="PEFT adapter of that model; repeat for several.",
    ),
    click.option(
        "--run",
        "population",
        type=click.Path(path_type=Path),
        help="Directory of a selfplay run: all its living members.",
    ),
    click.option("--base", is_flag=True, help="Also evaluate the model without an adapter."),
    click.option("--any-base", is_flag=True, help="Accept adapters that name another base."),
    click.option("--engine", type=click.Choice(["hf", "vllm"]), default="hf", show_default=True),
    click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda."),
    click.option(
        "--dtype",
        type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
        default="auto",
        show_default=True,
        help="auto: as the model is stored.",
    ),
    click.option(
        "--max-rows",
        type=click.IntRange(min=1),
        default=64,
        show_default=True,
        help="Sequences in one batch; less needs less memory.",
    ),
)

sampling_options = stack(
    click.option("--recipe", help="How questions are asked; see `evals list`."),
    click.option("--n", type=click.IntRange(min=1), help="Samples of each task; default: 1."),
    click.option(
        "--temperature", type=click.FloatRange(min=0.0), help="Default: 0, which is greedy."
    ),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Default: the recipe's."),
    click.option("--limit", type=click.IntRange(min=1), help="Ask only so many tasks."),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Of all samples; adapters share it.",
    ),
)


def _fail(text: str, code: int) -> int:
    click.echo(f"error: {text}" if code != 130 else text, err=True)
    return code
