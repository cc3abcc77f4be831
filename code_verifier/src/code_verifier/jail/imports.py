"""The modules that programs may import, by kind of server.

A child cannot read files, so all modules that it may import are imported before it is forked. A
larger process forks more slowly, so that there are two kinds of strict servers. A module that is
deterministic only in some uses (random with a seed, datetime arithmetic) is on the list: repeated
executions decide, not the list.
"""

import importlib
import os
import sys
from collections.abc import Iterable

from code_verifier.jail import wire


def words(text: str) -> frozenset[str]:
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
_MORE = words("urllib.parse html.entities html.parser json.decoder _strptime locale")
"""Parts of these, and modules that C code imports."""
_WITH_COMMON = words("collections.abc types weakref copyreg _pylong")
_CODECS = """
    utf_8 utf_8_sig ascii latin_1 iso8859_1 iso8859_15 utf_7 utf_16 utf_16_le utf_16_be utf_32
    utf_32_le utf_32_be cp1252 cp1251 cp437 rot_13 hex_codec base64_codec punycode unicode_escape
    raw_unicode_escape idna zlib_codec bz2_codec quopri_codec iso8859_2 iso8859_5 koi8_r mac_roman
"""
_STANDARD = words("""
    argparse asyncio bdb builtins cmd code concurrent.futures concurrent.futures.process
    concurrent.futures.thread configparser dis doctest email errno fileinput gc getopt getpass
    gettext glob gzip http http.server importlib importlib.util inspect linecache logging marshal
    mimetypes multiprocessing multiprocessing.pool opcode os os.path pickle pickletools platform
    profile cProfile pstats quopri resource sched select selectors shelve shutil signal socket
    sqlite3 stat stringprep subprocess symtable sysconfig tempfile threading tokenize trace
    traceback tracemalloc unittest unittest.mock urllib.request xml.dom.minidom
    xml.etree.ElementTree zipfile zoneinfo
""")
"""What ordinary programs may import beyond that: most of the standard library. What only an
application needs is left out."""
LIBRARIES = {
    "numpy": "numpy numpy.linalg numpy.random numpy.fft numpy.polynomial numpy.ma numpy.testing",
    "sortedcontainers": "sortedcontainers",
}
"""Libraries that ordinary programs may import if they are installed, and their modules."""


def preload(modules: str, libraries: Iterable[tuple[str, str]]) -> None:
    """Import all modules that programs may import. modules: the name of a list, see `wire`.
    libraries: names, each with the folder that holds it."""
    strict = modules in (wire.COMMON, wire.ALL)
    if strict:
        sys.modules["_datetime"] = None  # type: ignore[assignment]  # its clock cannot be replaced
    names = COMMON | _WITH_COMMON
    if modules != wire.COMMON:
        names |= ALLOWED | _MORE | (frozenset() if strict else _STANDARD)
    for name in sorted(names):
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # a version or a build of Python without it
    if modules != wire.COMMON:
        import codecs
        import hashlib

        for codec in _CODECS.split():
            codecs.lookup(codec)
        for name in sorted(hashlib.algorithms_guaranteed):
            hashlib.new(name)  # OpenSSL reads its settings from a file at the first use
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # a thread would not survive the fork
    for library, folder in libraries:
        sys.path.append(folder)
        for name in LIBRARIES[library].split():
            importlib.import_module(name)
    sys.path.clear()
