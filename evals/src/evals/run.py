"""One adapter on one benchmark: its results, and the folder that keeps them.

`prompts.jsonl` and `settings.json` are written first, `samples.jsonl` grows by whole batches,
`verdicts.jsonl` and `result.json` come last. A run that stopped anywhere resumes from its samples;
one of more or fewer questions or samples uses what is there.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from evals import records
from evals.data import OFFICIAL, parse_object
from evals.errors import EvalsError, SettingsChanged
from evals.members import Group
from evals.question import Sample, SampleVerdict
from evals.scores import Row, count, results, score
from lora_evo.files import append_text, lock_folder, remove_empty, sweep, write_text

RESULT_FILE = "result.json"
Key: TypeAlias = tuple[str, int]
"""A question's id and the number of a sample."""
Settings: TypeAlias = dict[str, Any]
_AMOUNTS = ("n", "limit", "prompts_hash")
"""Settings that may change in a folder: a sample's seed follows from its question and number."""
_STORED = ("adapter", "benchmark", "partial", "settings", "versions")


@dataclass(frozen=True)
class Run:
    """One adapter on one benchmark: the content of `result.json` and of the files next to it.

    adapter: `base` for the base model alone. partial: part of the benchmark was asked. versions: of
    the packages that ran. group: role and run of a member of a selfplay run. prompts: by question.
    folder: None where nothing was written. name: of the adapter in tables.
    """

    adapter: str
    benchmark: str
    partial: bool
    settings: Settings
    versions: Mapping[str, str]
    group: Group | None = None
    samples: Mapping[Key, Sample] = field(default_factory=dict, repr=False)
    verdicts: tuple[SampleVerdict, ...] = field(default=(), repr=False)
    prompts: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    name: str = ""

    @property
    def overall(self) -> Row:
        """The score of the samples."""
        return score(self.verdicts, self.benchmark)

    def as_json(self) -> dict[str, Any]:
        """Return the content of `result.json`: what was run, and a summary of the verdicts."""
        stored = {name: getattr(self, name) for name in _STORED}
        stored["group"] = self.group and asdict(self.group)
        return stored | results(self.verdicts, self.benchmark)

    def row(self) -> dict[str, Any]:
        """Return the result as one flat row, for `pandas.DataFrame`."""
        row, group = self.as_json(), self.group
        low, high = row["overall"].pop("interval") or (None, None)
        return {
            "adapter": self.adapter,
            "role": group and group.role,
            "run": group and group.run,
            "benchmark": self.benchmark,
            "partial": self.partial,
            **row["overall"],
            "low": low,
            "high": high,
            "base_rate": row["base_rate"],
            **{f"rate_level_{level}": part["rate"] for level, part in row["levels"].items()},
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each sample: its prompt, response and verdict."""
        return [
            {"adapter": self.adapter, "benchmark": self.benchmark}
            | {name: value for name, value in vars(verdict).items() if name != "details"}
            | {f"details/{name}": value for name, value in verdict.details.items()}
            | {"tokens": sample.tokens, "response": sample.response}
            | {"prompt": self.prompts.get(verdict.id)}
            for verdict in self.verdicts
            for sample in [self.samples[verdict.id, verdict.sample]]
        ]


@contextmanager
def open_folder(
    folder: Path, settings: Settings, prompts: Mapping[str, str]
) -> Iterator[dict[Key, Sample]]:
    """Make the folder of a run, or resume in it, and yield the samples that it holds. It is locked
    against other processes while open. When the block fails before the first sample, new files and
    folders are removed. Raises SettingsChanged when it holds a run with other settings, EvalsError
    when it holds something else or is in use."""
    new_folders = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        try:
            lock_folder(folder, lock.fileno())
        except BlockingIOError:
            raise EvalsError(f"another evals run is writing in {folder}; wait for it") from None
        sweep(folder)
        samples = {(s.id, s.sample): s for s in _earlier_samples(folder, settings, prompts)}
        try:
            yield samples
        except BaseException:
            file = folder / "samples.jsonl"
            if not file.exists() or not file.stat().st_size:
                for name in ("samples.jsonl", "settings.json", "prompts.jsonl", ".lock"):
                    (folder / name).unlink(missing_ok=True)
                remove_empty(new_folders)
            raise


def _earlier_samples(folder: Path, settings: Settings, prompts: Mapping[str, str]) -> list[Sample]:
    """The samples of an earlier run that was asked in this way, for more or fewer; a line that a
    crash cut is removed."""
    samples, settings_file = folder / "samples.jsonl", folder / "settings.json"
    if not settings_file.exists():
        if samples.exists():
            strange = f"{samples} exists, but no settings.json next to it"
            raise EvalsError(f"{strange}: evals run did not write it; choose another --out")
        _write_settings(folder, settings, prompts)
        return []
    before = parse_object(settings_file.read_bytes(), str(settings_file))
    old_prompts = records.read_prompts(folder / "prompts.jsonl")
    differ = [name for name, text in prompts.items() if old_prompts.get(name, text) != text]
    changes = [
        f"{name} was {before.get(name)!r}, now {settings.get(name)!r}"
        for name in sorted(before.keys() | settings.keys())
        if name not in _AMOUNTS and before.get(name) != settings.get(name)
    ] + [f"the prompt of {name} was another" for name in differ[:1]]
    if changes:
        raise SettingsChanged(
            f"{folder} holds a run with other settings: {'; '.join(changes)}; "
            "ask for the same again, or choose another --out"
        )
    if before != settings:
        _write_settings(folder, settings, {**prompts, **old_prompts})
    if not samples.exists():
        return []
    os.truncate(samples, samples.read_bytes().rfind(b"\n") + 1)
    return records.read_samples(samples)


def _write_settings(folder: Path, settings: Settings, prompts: Mapping[str, str]) -> None:
    rows = ({"id": name, "prompt": prompt} for name, prompt in prompts.items())
    write_text(folder / "prompts.jsonl", records.json_lines(rows))
    write_text(folder / "settings.json", json.dumps(settings, indent=2) + "\n")


def add_samples(folder: Path, samples: Sequence[Sample]) -> None:
    """Append samples and sync them. When the disk fails, the file stays as it was."""
    append_text(folder / "samples.jsonl", records.sample_lines(samples))


def write_run(run: Run, samples: Mapping[Key, Sample]) -> None:
    """Write the samples of a run in their final order, verdicts, and, last, the result. samples:
    also those that were asked for earlier, which come last."""
    assert run.folder is not None
    ordered = {**run.samples, **samples}.values()
    write_text(run.folder / "samples.jsonl", records.sample_lines(ordered))
    write_text(run.folder / "verdicts.jsonl", records.verdict_lines(run.verdicts))
    write_text(run.folder / RESULT_FILE, json.dumps(run.as_json(), indent=2) + "\n")


def read_run(folder: Path) -> Run:
    """Read the folder of a finished run. Raises EvalsError that names a damaged file, and for files
    that do not fit together."""
    path = folder / RESULT_FILE
    try:
        row = json.loads(path.read_bytes())
        group = row["group"] and Group(**row["group"])
        run = Run(**{name: row[name] for name in _STORED}, group=group, folder=folder)
        counts = {name: row["overall"][name] for name in count([])}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        text = f"{path} is damaged, or not a result of `evals run` ({error!r})"
        raise EvalsError(text) from error
    samples = {(s.id, s.sample): s for s in records.read_samples(folder / "samples.jsonl")}
    verdicts = tuple(records.read_verdicts(folder / "verdicts.jsonl"))
    try:
        subset = {(v.id, v.sample): samples[v.id, v.sample] for v in verdicts}
    except KeyError as error:
        id, number = error.args[0]
        fault = f"{folder} has a verdict on sample {number} of {id}, but no such sample"
        raise EvalsError(f"{fault}; finish it with `evals run`") from None
    if counts != count(verdicts):  # a command ended between the two files
        fault = f"{folder}: {RESULT_FILE} is of other verdicts than verdicts.jsonl"
        raise EvalsError(f"{fault}; finish it with `evals run`")
    texts = records.read_prompts(folder / "prompts.jsonl")
    prompts = {v.id: texts[v.id] for v in verdicts if v.id in texts}
    return replace(run, samples=subset, verdicts=verdicts, prompts=prompts)


def read_runs(
    *folders: str | os.PathLike[str], unreadable: Callable[[str], None] | None = None
) -> list[Run]:
    """Read all finished runs in or below the folders, such as the `--out` of `evals run`, by path.

    Raises EvalsError for a folder without a run, and for a run that cannot be read. unreadable:
    called with the reason instead, and the run is left out, if at least one run can be read.

        >>> import pandas
        >>> table = pandas.DataFrame([run.row() for run in read_runs("scores")])
        >>> table.groupby(["role", "benchmark"]).rate.mean()
    """
    places: dict[Path, None] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise EvalsError(f"there is no folder {folder}; expected the --out of `evals run`")
        parents = {path.resolve().parent: None for path in sorted(folder.rglob(RESULT_FILE))}
        if not parents:
            lacks = f"holds no finished result ({RESULT_FILE})"
            raise EvalsError(f"{folder} {lacks}; finish it with `evals run`")
        places |= parents
    runs = []
    for at, place in enumerate(places, start=1):
        try:
            runs.append(read_run(place))
        except EvalsError as error:
            if unreadable is None or (at == len(places) and not runs):
                raise
            unreadable(str(error))
    return runs


def evalplus_samples(runs: Sequence[Run]) -> str:
    """Return the samples of one run on HumanEval+ or MBPP+ as evalplus' `samples.jsonl`. A row is
    {"task_id", "solution"}: the program that was graded, or, where none was found, the response.
    Raises EvalsError for several runs, and for another benchmark."""
    run = runs[0]
    if len(runs) > 1:
        many = f"found {len(runs)} results, and the format holds one"
        raise EvalsError(f"{many}; name its folder below the --out of `evals run`")
    if run.benchmark not in OFFICIAL or not OFFICIAL[run.benchmark].cache:
        raise EvalsError(f"evalplus has no {run.benchmark}; it has humaneval_plus, mbpp_plus")
    return records.json_lines(
        {"task_id": verdict.id, "solution": verdict.extracted or sample.solution or sample.response}
        for verdict in run.verdicts
        for sample in [run.samples[verdict.id, verdict.sample]]
    ).rstrip("\n")
