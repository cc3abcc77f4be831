"""A benchmark's rows, from a file, evalplus' cache or the hub.

`benchmarks.toml` says where each benchmark is published.
"""

import contextlib
import gzip
import hashlib
import io
import json
import logging
import os
import tomllib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

from evals.errors import EvalsError, optional
from lora_evo.terminal import first_line


@dataclass(frozen=True)
class Official:
    """A published benchmark, as `benchmarks.toml` describes it. title: of its column in tables, ""
    if no paper's table has it. counts: official numbers of rows, each with its release. hub: path,
    and if needed revision, config and split; empty where the hub's rows lack the test inputs.
    cache: file in evalplus' cache, and the function that fetches it. releases: on the hub. digest:
    of the published rows, see `remarks`; "" if unknown. copies: digests of other
    well-known copies, and what they are."""

    description: str
    counts: Mapping[int, str]
    title: str = ""
    hub: Mapping[str, str] = field(default_factory=dict)
    cache: Sequence[str] = ()
    releases: Sequence[str] = ()
    digest: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)


_ROWS = tomllib.loads(Path(__file__).with_name("benchmarks.toml").read_text(encoding="utf-8"))
OFFICIAL: Mapping[str, Official] = {
    name: Official(**row | {"counts": {int(n): text for n, text in row["counts"].items()}})
    for name, row in _ROWS.items()
}
Record: TypeAlias = dict[str, Any]
PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"


class HubRows(Sequence[Record]):
    """The rows of a data set of `datasets`, which stay on disk; each is read when it is needed."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, number: Any) -> Any:
        return as_json(dict(self._table[number]))


@dataclass(frozen=True)
class Source:
    """Rows in their order, as they were published. content_hash: SHA-256 of the file's bytes, or of
    the rows if they come from no file; it says which."""

    rows: Sequence[Record]
    content_hash: str


def load_source(
    benchmark: str, file: Path | str | None = None, release: str | None = None
) -> Source:
    """Read `file`; without one, evalplus' file for its two benchmarks, else the hub. release: of
    LiveCodeBench on the hub, `release_v5` by default. Raises EvalsError, in one line, with what to
    type."""
    official = OFFICIAL[benchmark]
    if release is not None and (file is not None or release not in official.releases):
        choice = ", ".join(official.releases) or "none"
        where = f"{release!r} cannot be chosen" + " in a file" * (file is not None)
        raise EvalsError(f"{benchmark}: release {where}; the hub has: {choice}")
    if file is not None:
        return read_file(Path(file))
    if official.cache:
        return _read_evalplus(benchmark, *official.cache)
    return _read_hub(official.hub, release, benchmark)


def read_file(path: Path) -> Source:
    """Read JSON, JSON Lines (plain or gzip) or parquet, whatever the name of the file. JSON is read
    with `json`, not with `datasets`: Arrow holds neither integers of more than 64 bits nor lists of
    mixed types, and HumanEval+ and MBPP+ have both. Parquet needs `pyarrow`. Raises EvalsError for
    a file that is broken or has no rows, OSError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        error.filename = str(path)  # a failed read names no file
        raise
    rows = _parquet_rows(path) if data.startswith(PARQUET) else parse_rows(data, str(path))
    if not rows:
        raise EvalsError(f"{path} holds no rows")
    return Source(rows, f"sha256 of the file: {hashlib.sha256(data).hexdigest()}")


def parse_rows(data: bytes, place: str) -> list[Record]:
    """Return the objects in `data`, perhaps gzipped: a JSON array, one object, or one on each line.
    place: its name in errors. Raises EvalsError, with the line, for anything else."""
    try:
        text = (gzip.decompress(data) if data.startswith(_GZIP) else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise EvalsError(f"{place}: broken gzip ({error}); fetch it again") from None
    except UnicodeDecodeError as error:
        odd = f"byte {error.start} is not UTF-8"
        raise EvalsError(f"{place}: neither JSON nor gzip nor parquet ({odd})") from None
    if not text.strip():
        raise EvalsError(f"{place} is empty; expected JSON Lines or a JSON array")
    value = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
    if isinstance(value, list):
        return [_object(row, f"{place}, item {number}") for number, row in enumerate(value, 1)]
    if isinstance(value, dict):
        return [value]
    lines = enumerate(text.split("\n"), 1)
    return [parse_object(line, f"{place}, line {n}") for n, line in lines if line.strip()]


def parse_object(line: bytes | str, place: str) -> Record:
    """Return the object of one line. place: its name in errors. Raises EvalsError."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EvalsError(f"{place}: not JSON ({first_line(error)})") from None
    return _object(row, place)


def _object(row: Any, place: str) -> Record:
    if not isinstance(row, dict):
        raise EvalsError(f"{place}: found {type(row).__name__}, expected an object")
    return row


def row_id(row: Record, names: Iterable[str], number: int | str) -> str:
    """Return the id of a row, from the first of these columns that it has, else `number`."""
    return str(next((row[name] for name in names if row.get(name) not in (None, "")), number))


def _parquet_rows(path: Path) -> list[Record]:
    purpose = f"to read parquet ({path})"
    parquet, arrow = (optional(name, purpose) for name in ("pyarrow.parquet", "pyarrow"))
    try:
        return [as_json(row) for row in parquet.ParquetFile(path).read().to_pylist()]
    except arrow.ArrowException as error:
        raise EvalsError(f"{path}: broken parquet ({first_line(error)})") from None


def as_json(value: Any) -> Any:
    """Return a value of Arrow as one of JSON: dates become ISO texts."""
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    return value.isoformat() if isinstance(value, date) else value


def _read_evalplus(benchmark: str, name: str, function: str) -> Source:
    """The data file of evalplus: in its cache, or downloaded by its function. It is read here, with
    `json`: that function turns lists into tuples and sets (for some 70 tasks of MBPP+), and rows
    must not depend on their source."""
    path = cache_folder("evalplus") / name
    if not path.is_file():
        hint = f"give a file instead: --data {path.stem.rpartition('-')[0]}.jsonl.gz"
        data = optional("evalplus.data", f"to fetch {benchmark} (or {hint})")
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it draws a progress bar
                getattr(data, function)()
        except Exception as error:
            lost = f"there is no {path}, and evalplus cannot fetch it ({first_line(error)})"
            raise EvalsError(f"{benchmark}: {lost}; {hint}") from None
        if not path.is_file():
            raise EvalsError(f"{benchmark}: evalplus keeps no file {path}; {hint}")
    return read_file(path)


def cache_folder(name: str) -> Path:
    """Return a folder in the user's cache; evalplus 0.3.1 keeps its data in `evalplus`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name


def _read_hub(hub: Mapping[str, str], release: str | None, benchmark: str) -> Source:
    """Download rows, or take them from the cache of `datasets`."""
    datasets = optional("datasets", f"to get {benchmark} from the hub (or give a file: --data)")
    datasets.disable_progress_bars()  # they and messages on retries would disturb our bars
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        config, revision = release or hub.get("config"), hub.get("revision")
        split = hub.get("split", "test")
        rows = HubRows(datasets.load_dataset(hub["path"], config, split=split, revision=revision))
        digest = hashlib.sha256()
        for row in rows:
            digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    except Exception as error:  # datasets lets errors of many libraries through
        lost = f"cannot get {hub['path']} from the hub or its cache: {first_line(error)}"
        hint = f"give a file instead: --data {benchmark}.jsonl"
        raise EvalsError(f"{benchmark}: {lost}; {hint}") from None
    return Source(rows, f"sha256 of the rows: {digest.hexdigest()}")


def remarks(benchmark: str, count: int, rows: Iterable[object] = ()) -> tuple[str, ...]:
    """Return notes on the rows of a published benchmark: on their number, and whether they are the
    published ones, by the SHA-256 of their lines of JSON with sorted keys and no spaces; nothing on
    that for another number of rows, an unknown hash, or no rows here."""
    official = OFFICIAL[benchmark]
    if count in official.counts:
        number = f"{count} rows: {official.counts[count]}"
    else:
        expected = ", ".join(f"{n} ({release})" for n, release in official.counts.items())
        number = f"{count} rows, which is not an official number: {expected}"
    layout: dict[str, Any] = {"sort_keys": True, "ensure_ascii": False, "separators": (",", ":")}
    lines = [f"{json.dumps(row, **layout)}\n".encode("utf-8", "surrogatepass") for row in rows]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    if digest in official.copies:
        return number, f"the rows are {official.copies[digest]}"
    if not official.digest or len(lines) != next(iter(official.counts)):
        return (number,)
    if digest == official.digest:
        return number, "the rows are the published ones"
    unlike = f"the rows are not the published ones: sha256 {digest}, expected {official.digest}"
    return number, unlike
