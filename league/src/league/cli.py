"""The `league` command.

Errors are one line and an exit code: 1 the work found a problem or was stopped, as by a damaged or
busy league; 2 wrong usage; 130 interrupted.
"""

import errno
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import click

from league import __version__, analysis
from league.errors import LeagueError, LeagueLocked, UnreadableLeague, suggestion
from league.league import League
from league.store import EVENTS, LOCK, SETTINGS
from league.table import find_cycle, rate, read_rows

Cell = str | int | float | None

directory_argument = click.argument("directory", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, not a table.")
_DEFAULT_TAUS = ", ".join(f"{tau:.3g}" for tau in analysis.TAUS)
_TAU_HELP = f"A tau to try; may be repeated.  [default: {_DEFAULT_TAUS}]"


class Group(click.Group):
    """A group of commands whose errors are one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by the caller: no file is to take its place
                setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        try:
            sys.exit(super().main(*args, **{**extra, "standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            more = f"; see {context.command_path} --help" if context else ""
            _fail(error.format_message().strip().rstrip(".") + more, error.exit_code)
        except LeagueError as error:
            _fail(str(error), 1 if isinstance(error, UnreadableLeague | LeagueLocked) else 2)
        except OSError as error:  # not of a reader that has gone: click ends quietly then
            place = f"{error.filename}: " if error.filename else ""
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "; free some space on this disk" if is_full else ""
            _fail(f"{place}{error.strerror or error}{remedy}", 1)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _fail("interrupted", 130)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="league")
def main() -> None:
    """Inspect a league: ratings of members that play each other.

    DIRECTORY is the folder of a league, with a league.json; a training run of selfplay keeps its
    league in RUN/league. Reading is safe while another process writes the league.

    Exit codes: 0 done; 1 the work found a problem, such as a damaged league; 2 wrong usage;
    130 interrupted.
    """


@main.command("board")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--rows",
    "table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rate the results in this CSV or JSON Lines (.jsonl) file instead of a league. Columns: "
    "teacher and student, or member and opponent, and outcome (0 to 1), or solved and attempts; "
    "or winner and loser; or model_a, model_b and winner.",
)
@json_option
def board_command(directory: Path | None, table: Path | None, as_json: bool) -> None:
    """Print who is best in a league, or in a table of results.

    A TrueSkill rating has mean mu and uncertainty sigma; lower_bound is mu - 3 sigma. All members
    share most of sigma, which is about the level of the whole league. So compare members of a
    league by `ranks`, the 95 % interval of a member's place, and rows of --rows by `behind`, the
    gap to the first row, and `behind_sigma`, its standard deviation.
    """
    if (directory is None) == (table is None):
        raise LeagueError("expected the DIRECTORY of a league, or --rows FILE")
    if table is not None:
        results = read_rows(table)
        rated = [asdict(row) for row in rate(results)]
        text = _table(list(rated[0]), [list(row.values()) for row in rated])
        if cycle := find_cycle(results):
            wins = ", ".join(f"{one} beats {two}" for one, two in pairwise([*cycle, cycle[0]]))
            text += f"\n\n{wins}: no rating can show this cycle."
        _print(rated if as_json else text)
    if directory is not None:
        league = _opened(directory)
        ranking = (
            f"{_board(league)}\n{_left_out(league)}\nRanked by {league.config.fitness}. Compare "
            "members by ranks, the 95 % interval of their place, not by sigma.\nRatings are "
            "relative: both sides may improve while no rating moves."
        )
        _print(_boards(league) if as_json else ranking)


@main.command("matrix")
@directory_argument
@json_option
def matrix_command(directory: Path, as_json: bool) -> None:
    """Print how often each student solves each teacher's tasks.

    Cells are shares of attempts, from 0 to 1; '·' for pairs that never played. --json adds each
    pair's share of tasks won, expected share, and number of tasks.
    """
    league = _opened(directory)
    payoff = league.payoff()
    rows = [(name, *row) for name, row in zip(payoff.teachers, payoff.observed, strict=True)]
    text = f"{_table(('teacher', *payoff.students), rows)}\n{_left_out(league)}".rstrip()
    _print(asdict(payoff) if as_json else text)


@main.command("report")
@directory_argument
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page of charts to this file; it works offline.",
)
@json_option
def report_command(directory: Path, html: Path | None, as_json: bool) -> None:
    """Print a report on a league, or draw it as a page of charts.

    The report has the leaderboards and says how well ratings predict results (calibration); the
    page also shows who solves whose tasks.
    """
    if html is not None:
        if not html.parent.is_dir():
            raise LeagueError(
                f"{html} cannot be written: there is no folder {html.parent}; choose another file, "
                f"or type: mkdir -p {shlex.quote(str(html.parent))}"
            )
        if html.name in (SETTINGS, EVENTS, LOCK) and html.parent.resolve() == directory.resolve():
            raise LeagueError(f"{html} is a file of the league itself; choose another file")
        # slow, and an extra
        from league.charts import write_page
    league = _opened(directory)
    rated = any(outcome.counted for outcome in league.state.outcomes.values())
    calibrated = analysis.calibration(directory) if rated else None
    if html is not None:
        write_page(html, league)
    details = {"boards": _boards(league), "payoff": asdict(league.payoff())}
    text = f"{league.state.played}\n\n{_board(league)}"
    if calibrated is not None:
        text += f"\n\ncalibration: RMSE {calibrated.rmse:.3f}, "
        text += f"{calibrated.coverage:.0%} inside 95 % intervals"
    text += f"\n\nwrote {click.format_filename(html)}" if html is not None else ""
    details["calibration"] = asdict(calibrated) if calibrated else {}
    _print(league.state.counts | details if as_json else text)


@main.command("replay")
@directory_argument
@json_option
def replay_command(directory: Path, as_json: bool) -> None:
    """Compute all ratings of a league again, and compare.

    The exit code is 1 if a rating does not follow from the results. A log or settings that were
    edited later make every command end with an error.
    """
    league = _opened(directory)
    differences = analysis.replay(league)
    counts = {"events": league.state.events} | league.state.counts | {"equal": not differences}
    _print(counts if as_json else _table(tuple(counts), [tuple(map(str, counts.values()))]))
    if differences:
        problem = f"{len(differences)} ratings do not follow from the log, the first: "
        _fail(problem + differences[0], 1)


@main.command("calibrate")
@directory_argument
@click.option("--tau", "taus", type=float, multiple=True, help=_TAU_HELP)
@json_option
def calibrate_command(directory: Path, taus: tuple[float, ...], as_json: bool) -> None:
    """Find the tau that gives the best predictions of the matches.

    tau is how much a member's skill may change per match; fast learners need a larger tau.
    """
    _check_league(directory)
    tuning = analysis.calibrate(directory, taus or analysis.TAUS)
    rows = [
        (
            *(f"{x.tau:.3g}", x.log_loss, x.rmse, x.coverage),
            "best" if i == tuning.best else f"{x.behind:+.5f} ± {x.error:.5f}",
            "the league's" if i == tuning.own else "",
        )
        for i, x in enumerate(tuning.trials)
    ]
    header = ("tau", "log-loss", "RMSE", "coverage", "log-loss behind", "")
    text = (
        f"{_table(header, rows, 4)}\n\nEvery match was predicted from earlier results. log-loss: "
        "nats per task; RMSE: of the\npredicted share of the tasks; coverage: of 95 % predictive "
        f"intervals.\n\n{_advice(tuning)}"
    )
    _print(asdict(tuning) if as_json else text)


def _advice(tuning: analysis.Tuning) -> str:
    best, trial = tuning.trials[tuning.best], tuning.trials[tuning.own]
    if trial.matches < (least := analysis.FEW_MATCHES):
        return f"Only {trial.matches} rated matches: expected at least {least} for an advice."
    if not tuning.change:
        return f"The league's own tau {trial.tau:.3g} predicts as well as the best: keep it."
    is_largest = tuning.best == len(tuning.trials) - 1
    return (
        "The settings of a league are fixed when it is created. For the next one, write\n"
        f"    LeagueConfig(tau={best.tau:.3g})"
        + ("; it is the largest that was tried, so try larger ones" if is_largest else "")
    )


def _boards(league: League) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all boards with their rank intervals, by role."""
    boards = {}
    for role in league.state.slots:
        board = league.leaderboard(role)
        ranks = analysis.rank_intervals(board, seed=league.config.seed)
        boards[role] = [asdict(row) | {"ranks": asdict(ranks[row.member])} for row in board]
    return boards


def _board(league: League) -> str:
    header = ["role", "member", "slot", "mu", "sigma", "lower_bound", "matches"]
    header += ["solved", "valid", "unsolved", "reward", "age", "ranks", "parents"]
    fields = {"solved": "mean_solve_rate", "reward": "mean_reward"}
    fields |= {"valid": "valid_rate", "unsolved": "unsolved_rate"}
    rows = []
    for row in chain.from_iterable(_boards(league).values()):
        ranks = f"{row['ranks']['low']}-{row['ranks']['high']}"
        row = row | {"ranks": ranks, "parents": " + ".join(row["parents"])}
        rows.append([row[fields.get(name, name)] for name in header])
    return _table(header, rows)


def _left_out(league: League) -> str:
    """Return a line with the number of tasks that no rate counts; '' for none."""
    text = league.state.not_judged
    return f"{text}: no number here counts them\n" if text else ""


def _opened(directory: Path) -> League:
    _check_league(directory)
    league = League(directory, read_only=True)
    for warning in league.warnings:
        click.echo(f"warning: {warning}", err=True)
    return league


def _check_league(directory: Path) -> None:
    """Raise LeagueError, with what to type, if the directory holds no league."""
    if (directory / SETTINGS).exists():
        return
    if (directory / "league" / SETTINGS).exists():
        raise LeagueError(
            f"{directory} is a run, not a league; did you mean {directory / 'league'}?"
        )
    cause = f"it holds no {SETTINGS}" if directory.is_dir() else "it is a file"
    problem = f"{directory} is no league: {cause}"
    if not directory.exists():
        problem = f"there is no folder {directory}"
    paths = directory.parent.glob(f"*/{SETTINGS}")
    near = suggestion(directory.name, (path.parent.name for path in paths))
    raise LeagueError(
        f"{problem}; expected the folder of a league, such as RUN/league of a training run{near}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 2) -> str:
    """Return aligned columns: text flush left, numbers flush right, a dot for None."""
    text = [[_cell(cell, digits) for cell in row] for row in rows]
    is_text = [any(isinstance(row[i], str) for row in rows) for i in range(len(header))]
    widths = [max(map(len, column)) for column in zip(header, *text, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if words else cell.rjust(width)
            for cell, width, words in zip(cells, widths, is_text, strict=True)
        ).rstrip()
        for cells in (header, *text)
    )


def _cell(value: Cell, digits: int) -> str:
    if value is None:
        return "·"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _print(data: object) -> None:
    """Print a text as it is, and data as JSON."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(data if isinstance(data, str) else text)


def _fail(message: str, code: int) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)
