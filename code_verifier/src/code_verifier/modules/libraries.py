"""What an ordinary program may import: most of the standard library, and numpy where it is there.

A child cannot read files, so everything is imported before it is forked. Modules that only an
application needs (windows, test suites, package installation) are left out.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

_STANDARD = """
    __future__ _strptime abc argparse array ast asyncio base64 bdb binascii bisect builtins bz2
    calendar cmath cmd code codecs collections collections.abc colorsys concurrent.futures
    concurrent.futures.process concurrent.futures.thread configparser contextlib contextvars
    copy copyreg csv dataclasses datetime decimal difflib dis doctest email enum errno fileinput
    fnmatch fractions functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac
    html html.entities html.parser http http.server importlib importlib.util inspect io
    ipaddress itertools json json.decoder keyword linecache locale logging lzma marshal math
    mimetypes multiprocessing multiprocessing.pool numbers opcode operator os os.path pathlib
    pickle pickletools platform pprint profile cProfile pstats queue quopri random re reprlib
    resource sched secrets select selectors shelve shlex shutil signal socket sqlite3 stat
    statistics string stringprep struct subprocess symtable sys sysconfig tempfile textwrap
    threading time timeit token tokenize trace traceback tracemalloc types typing unicodedata
    unittest unittest.mock urllib.parse urllib.request uuid warnings weakref xml.dom.minidom
    xml.etree.ElementTree zipfile zlib zoneinfo
    encodings.ascii encodings.latin_1 encodings.idna encodings.utf_8 encodings.utf_8_sig
    encodings.utf_16 encodings.utf_32 encodings.cp1252 encodings.cp437 encodings.rot_13
    encodings.hex_codec encodings.base64_codec encodings.unicode_escape encodings.punycode
    encodings.raw_unicode_escape
"""
PLAIN, NUMPY = range(2)


def tier(program: str) -> int:
    """The least tier that a program of this text needs: forking costs by what is loaded."""
    return NUMPY if "numpy" in program else PLAIN


def numpy_folder() -> str | None:
    """The folder to import numpy from, or None where it is not installed."""
    spec = importlib.util.find_spec("numpy")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parents[1])


def preload(numpy_from: str | None) -> None:
    """Import all of it; `numpy_from` is what `numpy_folder` said, or None to leave numpy out."""
    for name in _STANDARD.split():
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # a build of Python without it
    import hashlib

    for name in sorted(hashlib.algorithms_guaranteed):
        hashlib.new(name)  # OpenSSL reads its settings from a file at the first use
    if numpy_from is not None:
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = "1"  # a thread would not survive the fork
        sys.path.append(numpy_from)
        for name in (
            "numpy",
            "numpy.linalg",
            "numpy.random",
            "numpy.fft",
            "numpy.polynomial",
            "numpy.ma",
            "numpy.testing",
        ):
            importlib.import_module(name)
    sys.path.clear()
