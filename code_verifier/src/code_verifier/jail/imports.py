"""The modules that programs may import, by kind of server.

A child cannot read files, so all modules that it may import are imported before it is forked. A
larger process forks more slowly, so that there are two kinds of strict servers. A module that is
deterministic only in some uses (random with a seed, datetime arithmetic) is on the list: repeated
executions decide, not the list.
"""

from __future__ import annotations

import importlib
import os
import sys

from code_verifier.jail import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


COMMON = words("""
    __future__ bisect collections copy functools heapq itertools math operator re string typing
""")
ALLOWED = COMMON | words("""
    abc array ast base64 binascii bz2 calendar cmath codecs colorsys contextlib contextvars csv
    dataclasses datetime decimal difflib enum fnmatch fractions graphlib hashlib hmac html io
    ipaddress json keyword lzma ntpath numbers pathlib posixpath pprint queue random reprlib
    secrets shlex statistics struct sys textwrap time timeit token types unicodedata urllib uuid
    warnings weakref zlib
""")
"""What strict programs may import. urllib has `parse` only."""
_MORE = """
    urllib.parse html.entities html.parser json.decoder _strptime
    encodings.idna locale
"""
"""Parts of these, and modules that C code imports."""
_WITH_COMMON = "collections.abc types weakref copyreg _pylong"
_CODECS = """
    utf_8 utf_8_sig ascii latin_1 iso8859_1 iso8859_15 utf_7 utf_16 utf_16_le utf_16_be utf_32
    utf_32_le utf_32_be cp1252 cp1251 cp437 rot_13 hex_codec base64_codec punycode unicode_escape
    raw_unicode_escape idna zlib_codec bz2_codec quopri_codec iso8859_2 iso8859_5 koi8_r mac_roman
"""
# Of ordinary programs: most of the standard library. What only an application needs is left out.
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
LIBRARIES = {
    "numpy": """
        numpy numpy.linalg numpy.random numpy.fft numpy.polynomial numpy.ma numpy.testing
    """,
    "sortedcontainers": "sortedcontainers",
}
"""Libraries that ordinary programs may import if they are installed, and their modules."""


def preload(modules: str, libraries: Iterable[tuple[str, str]]) -> None:
    """Import all modules that programs may import. modules: the name of a list, see `wire`.
    libraries: names, each with the folder that holds it."""
    strict = modules in (wire.COMMON, wire.ALL)
    if strict:
        sys.modules["_datetime"] = None  # type: ignore[assignment]  # its clock cannot be replaced
    names = f"{' '.join(COMMON)} {_WITH_COMMON}" if strict else _STANDARD
    if modules == wire.ALL:
        names += f" {' '.join(ALLOWED)} {_MORE}"
    for name in sorted(names.split()):
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # a version or a build of Python without it
    if modules != wire.COMMON:
        _load_hashes_and_codecs()
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # a thread would not survive the fork
    for library, folder in libraries:
        sys.path.append(folder)
        for name in LIBRARIES[library].split():
            importlib.import_module(name)
    sys.path.clear()


def _load_hashes_and_codecs() -> None:
    import codecs
    import hashlib

    for codec in _CODECS.split():
        codecs.lookup(codec)
    for name in sorted(hashlib.algorithms_guaranteed):
        hashlib.new(name)  # OpenSSL reads its settings from a file at the first use
