"""Rows from the Hugging Face hub, through `datasets`."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from evals.errors import EvalsError
from evals.sources.local_file import plain
from evals.sources.official import HubAddress
from evals.sources.optional import optional
from evals.sources.source import Row, Source, rows_sha256


def read_hub(address: HubAddress, benchmark: str) -> Source:
    """Download rows, or take them from the cache of `datasets`.

    Raises EvalsError when the library is missing, when neither hub nor cache can be had, and when
    the hub has no such data set.
    """
    datasets = optional("datasets", f"to get {benchmark} from the hub (or give a file: --data)")
    offline = not _resolves()
    try:
        with _without_retries(datasets) if offline else _quiet(datasets):
            table = datasets.load_dataset(address.path, address.config, split=address.split)
            rows: list[Row] = [plain(dict(row)) for row in table]
    except Exception as error:  # datasets lets errors of many libraries through
        raise _told(error, address, benchmark, offline) from None
    return Source(rows, len(rows), rows_sha256(rows), "rows", f"hub: {address}")


def _told(error: Exception, address: HubAddress, benchmark: str, offline: bool) -> EvalsError:
    if offline or isinstance(error, ConnectionError):
        return EvalsError(
            f"{benchmark}: {address} is not in the cache, and the hub cannot be reached from "
            f"here; give a file instead: --data {benchmark}.jsonl"
        )
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return EvalsError(
        f"{benchmark}: cannot get {address} from the hub: {reason[:300]}; "
        f"give a file instead: --data {benchmark}.jsonl"
    )


def _resolves() -> bool:
    """Whether the hub's name is known here; with a proxy only the proxy could tell."""
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    if getproxies().get(address.scheme):
        return True
    try:
        socket.getaddrinfo(address.hostname, address.port or 443)
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Without progress bars, which would mix with our own."""
    shown = datasets.utils.logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


@contextmanager
def _without_retries(datasets: Any) -> Iterator[None]:
    """Look into the cache only: five retries of a name that is not known take half a minute."""
    from huggingface_hub import constants

    kept = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        with _quiet(datasets):
            yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = kept
