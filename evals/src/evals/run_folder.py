"""The folder of one adapter on one benchmark, from the first sample to the result.

`prompts.jsonl` and `settings.json` are written first, `samples.jsonl` grows by whole batches,
`verdicts.jsonl` and `result.json` come last. A run that stopped anywhere resumes from its samples.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from evals.benchmark import Sample, Verdict
from evals.errors import EvalsError, SettingsChanged
from evals.records import as_verdict, prompt_lines, read_samples, sample_lines, verdict_lines
from evals.results import RESULT_FILE, Result, Settings, read_result
from evals.sources import parse_object
from lora_evo import append_text, remove_empty, sweep, write_text


class RunFolder:
    """Samples kept so far, and where the next ones go; made by `open_run_folder`."""

    def __init__(self, folder: Path, samples: list[Sample]) -> None:
        self.place = folder
        self._kept = len(samples)
        self.samples = samples

    def finished(self, versions: Mapping[str, str]) -> Result | None:
        """Return the result of an earlier run that graded all samples with these versions."""
        try:
            result = read_result(self.place / RESULT_FILE)
        except (EvalsError, OSError):
            return None
        graded = result.overall.samples == self._kept == len(self.samples)
        whole = graded and not result.overall.ungraded
        return result if whole and result.versions == versions else None

    def add(self, samples: Sequence[Sample]) -> None:
        """Append samples and sync them. When the disk fails, the file stays as it was."""
        append_text(self.place / "samples.jsonl", sample_lines(samples))
        self.samples.extend(samples)

    def finish(
        self, samples: Sequence[Sample], verdicts: Sequence[Verdict], result: Result
    ) -> None:
        """Write samples in their final order, verdicts, and, last, the result."""
        write_text(self.place / "samples.jsonl", sample_lines(samples))
        write_text(self.place / "verdicts.jsonl", verdict_lines(verdicts))
        self.write_result(result)

    def write_result(self, result: Result) -> None:
        """Write the result alone, of samples and verdicts that are there."""
        write_text(self.place / RESULT_FILE, json.dumps(asdict(result), indent=2) + "\n")


@contextmanager
def open_run_folder(
    folder: Path, settings: Settings, prompts: Mapping[str, str]
) -> Iterator[RunFolder]:
    """Make the folder, or resume in it; locked against other processes while open.

    When the block fails before the first sample, what was made is removed.

    Raises SettingsChanged when it holds a run with other settings, EvalsError when it holds
    something else or is in use.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock", f"another evals run is writing in {folder}"):
        sweep(folder)
        run = RunFolder(folder, _kept(folder, settings, prompts))
        try:
            yield run
        except BaseException:
            if not run.samples:
                for name in ("samples.jsonl", "settings.json", "prompts.jsonl", ".lock"):
                    (folder / name).unlink(missing_ok=True)
                remove_empty(made)
            raise


@contextmanager
def open_verdicts(
    out: Path, job: Settings
) -> Iterator[tuple[list[Verdict], Callable[[Verdict], None]]]:
    """Yield the verdicts that an unfinished command left for `out`, and what keeps one more.

    They lie in `out` with `.part`, below a line with the job, and are dropped with another job; the
    file goes when the block ends well. Raises EvalsError when another process has it, or it is
    not one of ours.
    """
    part = out.with_name(f"{out.name}.part")
    head = json.dumps({"grading": job}) + "\n"
    with _locked(part, f"another evals grade is writing {out}"):
        try:
            first, *rows = part.read_bytes().split(b"\n")
            if first and not first.startswith(b'{"grading": '):
                raise EvalsError(f"{part} is in the way: evals grade did not write it; remove it")
            if first + b"\n" != head.encode() or not rows:
                rows = [b""]
                os.truncate(part, 0)
                append_text(part, head)
            os.truncate(part, part.stat().st_size - len(rows.pop()))  # a kill may have torn it
            verdicts = [
                as_verdict(parse_object(line, f"{part}, line {n}"))
                for n, line in enumerate(rows, 2)
            ]
            yield verdicts, lambda verdict: append_text(part, verdict_lines([verdict]), sync=False)
            part.unlink()
        except BaseException:
            if part.exists() and part.read_bytes() == head.encode():
                part.unlink()
            raise


@contextmanager
def _locked(path: Path, busy: str) -> Iterator[None]:
    """Lock a file, made if need be. Raises EvalsError when another process holds it."""
    handle = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EvalsError(f"{busy}; wait for it") from None
        yield
    finally:
        os.close(handle)


def _kept(folder: Path, settings: Settings, prompts: Mapping[str, str]) -> list[Sample]:
    """Samples of an earlier run with these settings; a line that was cut by a crash is removed.

    One of fewer samples a question goes on with those that are missing.
    """
    samples, known = folder / "samples.jsonl", folder / "settings.json"
    if not known.exists():
        if samples.exists():
            raise EvalsError(
                f"{samples} exists, but no settings.json next to it: evals run did not write it; "
                "choose another --out"
            )
        write_text(folder / "prompts.jsonl", prompt_lines(prompts))
        write_text(known, json.dumps(settings, indent=2) + "\n")
        return []
    before = parse_object(known.read_bytes(), str(known))
    fewer, more = before.get("n"), settings.get("n")
    if isinstance(fewer, int) and isinstance(more, int) and fewer < more:
        before["n"] = more  # a sample's seed follows from its number: those that are there stay
    changed = [
        f"{name} was {before.get(name)!r}, now {settings.get(name)!r}"
        for name in sorted(before.keys() | settings.keys())
        if before.get(name) != settings.get(name)
    ]
    if changed:
        raise SettingsChanged(
            f"{folder} holds a run with other settings: {'; '.join(changed)}; "
            "ask for the same again, or choose another --out"
        )
    if fewer != more:
        write_text(known, json.dumps(settings, indent=2) + "\n")
    if not samples.exists():
        return []
    data = samples.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(samples, whole)
    return read_samples(samples)
