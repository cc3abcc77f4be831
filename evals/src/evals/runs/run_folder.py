"""The folder of one adapter on one benchmark, from the first sample to the result.

`prompts.jsonl` and `settings.json` are written first, `samples.jsonl` grows by whole batches,
`verdicts.jsonl` and `result.json` come last. A run that stopped anywhere goes on from its samples.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evals.atomic import sweep, write_text
from evals.benchmarks.benchmark import Judgement, Sample
from evals.errors import EvalsError, SettingsChanged
from evals.runs.records import prompt_lines, read_samples, sample_line, verdict_lines
from evals.runs.result import Result, Settings

RESULT_FILE = "result.json"


class RunFolder:
    """Samples kept so far, and where the next ones go. Use `open_run_folder`."""

    def __init__(self, folder: Path, samples: list[Sample]) -> None:
        self._folder = folder
        self._kept = len(samples)
        self.samples = samples

    def finished(self, versions: Mapping[str, str]) -> Result | None:
        """The result of an earlier run, if it judged all of the samples with these versions."""
        try:
            result = read_result(self._folder / RESULT_FILE)
        except (EvalsError, OSError):
            return None
        judged = result.overall.samples == self._kept == len(self.samples)
        same = judged and result.versions == versions
        return result if same and not result.overall.ungraded else None

    def add(self, samples: Sequence[Sample]) -> None:
        """Append samples and sync them. When the disk fails, the file stays as it was."""
        path = self._folder / "samples.jsonl"
        with path.open("ab") as file:
            size = file.tell()
            try:
                file.write("".join(map(sample_line, samples)).encode())
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                os.truncate(path, size)
                raise
        self.samples.extend(samples)

    def finish(
        self, samples: Iterable[Sample], judgements: Iterable[Judgement], result: Result
    ) -> None:
        """Write samples in their final order, verdicts, and, last, the result."""
        write_text(self._folder / "samples.jsonl", "".join(map(sample_line, samples)))
        write_text(self._folder / "verdicts.jsonl", verdict_lines(judgements))
        write_text(self._folder / RESULT_FILE, json.dumps(result.to_dict(), indent=2) + "\n")


@contextmanager
def open_run_folder(
    folder: Path, settings: Settings, prompts: Mapping[str, str]
) -> Iterator[RunFolder]:
    """Make the folder, or go on in it; locked against other processes while open.

    Raises SettingsChanged when it holds a run with other settings, EvalsError when it holds
    something else or is in use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EvalsError(f"another evals run is writing in {folder}; wait for it") from None
        sweep(folder)
        yield RunFolder(folder, _kept(folder, settings, prompts))
    finally:
        os.close(handle)


def read_result(path: Path) -> Result:
    """Read a `result.json`. Raises EvalsError, naming the file, when it is not one."""
    try:
        return Result.from_dict(_read_json(path))
    except EvalsError as error:
        raise EvalsError(f"{path}: {error}") from error


def _kept(folder: Path, settings: Settings, prompts: Mapping[str, str]) -> list[Sample]:
    """Samples of an earlier run with these settings; a line that was cut by a crash is removed."""
    samples = folder / "samples.jsonl"
    if not (folder / "settings.json").exists():
        if samples.exists():
            raise EvalsError(
                f"{samples} exists, but not settings.json beside it: evals run did not write it; "
                "choose another --out"
            )
        write_text(folder / "prompts.jsonl", prompt_lines(prompts))
        write_text(folder / "settings.json", json.dumps(settings, indent=2) + "\n")
        return []
    found = _read_json(folder / "settings.json")
    if not isinstance(found, dict):
        raise EvalsError(f"{folder / 'settings.json'} is not an object; choose another --out")
    changed = [
        f"{name} was {found.get(name)!r}, now {settings.get(name)!r}"
        for name in sorted(found.keys() | settings.keys())
        if found.get(name) != settings.get(name)
    ]
    if changed:
        raise SettingsChanged(
            f"{folder} holds a run with other settings: {'; '.join(changed)}; "
            "ask for the same again, or choose another --out"
        )
    if not samples.exists():
        return []
    data = samples.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(samples, whole)
    return read_samples(samples)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise EvalsError(f"{path} is not JSON ({error}); it is damaged") from error
