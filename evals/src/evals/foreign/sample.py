"""Samples that another harness saved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ForeignSample:
    """One sample of one problem, as the file has it; what the file does not say is None.

    id: of the problem, in the harness' spelling. sample: from 0. response: what the model wrote.
    solution: a whole program. completion: a program without its prompt. filtered: filter -> what
    the harness took from the response. truncated: cut by the token limit. index: the problem's
    place in the harness' data. claims: the harness' own verdicts and other short facts.
    """

    id: str
    sample: int
    response: str | None = None
    solution: str | None = None
    completion: str | None = None
    filtered: Mapping[str, str] = field(default_factory=dict)
    truncated: bool | None = None
    index: int | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignSamples:
    """A file or folder that was read. harness: who wrote it. notes: what was passed over."""

    harness: str
    origin: str
    samples: tuple[ForeignSample, ...]
    notes: tuple[str, ...] = ()
