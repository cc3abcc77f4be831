"""The tests of a problem: public ones in JSON, hidden ones packed as base64(zlib(pickle(JSON)))."""

import base64
import binascii
import io
import json
import pickle
import zlib
from typing import Any, NoReturn

from evals.contest.problem import FUNCTIONAL, STDIN, ContestProblem, ContestTest, StoredRow
from evals.errors import EvalsError

_MOST_BYTES = 1 << 30


def read_tests(problem: ContestProblem) -> tuple[ContestTest, ...]:
    """Public tests, then hidden ones. Raises EvalsError."""
    private = problem.private
    if isinstance(private, StoredRow):
        private = _stored(private)
    place = f"problem {problem.question_id}"
    return (*_tests(problem.public, place), *_tests(unpack_tests(private, place), place))


class PlainUnpickler(pickle.Unpickler):
    """Loads texts, numbers and containers; refuses to look up any class or function."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def unpack_tests(packed: str, place: str) -> str:
    """The JSON text of hidden tests, packed or not. Raises EvalsError."""
    if not packed or packed.lstrip()[:1] == "[":
        return packed
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        if unzip.unconsumed_tail:
            raise EvalsError(f"{place}: hidden tests of more than {_MOST_BYTES >> 20} MiB")
        text = PlainUnpickler(io.BytesIO(data)).load()
    except EvalsError:
        raise
    except (binascii.Error, zlib.error, pickle.UnpicklingError, *_UNPICKLING) as error:
        raise EvalsError(f"{place}: hidden tests cannot be unpacked: {error}") from None
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise EvalsError(f"{place}: hidden tests hold {type(text).__name__}; expected JSON text")
    return text


_UNPICKLING = (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


def _tests(text: str, place: str) -> list[ContestTest]:
    try:
        rows: Any = json.loads(text) if text else []
    except (ValueError, RecursionError) as error:
        raise EvalsError(f"{place}: tests are not JSON ({error})") from None
    if not isinstance(rows, list):
        raise EvalsError(f"{place}: tests are {type(rows).__name__}; expected a list")
    return [_test(row, place) for row in rows]


def _test(row: Any, place: str) -> ContestTest:
    if not isinstance(row, dict):
        raise EvalsError(f"{place}: a test is {type(row).__name__}; expected an object")
    fields = row.get("input"), row.get("output"), row.get("testtype")
    if not all(isinstance(field, str) for field in fields) or fields[2] not in (STDIN, FUNCTIONAL):
        raise EvalsError(f"{place}: a test lacks the texts input, output or testtype")
    return ContestTest(*map(str, fields))


def _stored(row: StoredRow) -> str:
    """The hidden tests of a row on disk."""
    try:
        with row.path.open("rb") as file:
            file.seek(row.start)
            return str(json.loads(file.read(row.length)).get("private_test_cases") or "")
    except (OSError, ValueError, AttributeError) as error:
        raise EvalsError(f"{row.path} has changed since it was read: {error}") from None
