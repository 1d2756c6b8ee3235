"""Takes host names, user names and absolute paths out of recorded traces, so that they can be committed.

    python tests/traces/strip.py FILE...            rewrites the files in place
    python tests/traces/strip.py --check FILE...    changes nothing; exit code 1 if anything is left

It edits the JSON as text and never parses it: numbers keep their spelling, and a file that is broken stays broken in
the same way. Of a path a relative tail is kept: what follows `site-packages/`, else the file's name. What it does
not know: paths with spaces in them, paths written with backslashes, and names of one level such as `/data`, which say
nothing. Process numbers, thread numbers and memory addresses stay.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import sys
from pathlib import Path

NAMES = {"host_name": "host", "username": "user"}

# One level of a path; a character beyond ASCII may be an escape.
_LEVEL = r"""(?:[^\s"'\\/:;,()<>|*?]|\\u[0-9a-fA-F]{4})+"""

_FINDS = re.compile(
    rf"""
    "(?P<key>{"|".join(NAMES)})"\s*:\s*"(?P<name>(?:[^"\\]|\\.)*)"
    |
    # The slash comes first and looks back: the search can then run from slash to slash.
    # After a letter it stands inside a relative path, unless the letter ends an escape (\n) or is a drive (C:/).
    /(?: (?<=[^\w.)\]/~-]/) | (?<=\\[bfnrt]/) )
    (?P<folders>(?:{_LEVEL}/)+)(?={_LEVEL})
    """,
    re.VERBOSE,
)
_DRIVE = re.compile(r'(?<=")[A-Za-z]:(?=/)')
_INSTALLED = re.compile(r".*(?:(?:site|dist)-packages|lib/python\d[\d.]*)/")


def strip_text(text: str) -> str:
    """The same JSON text without host names, user names and absolute paths."""
    return _FINDS.sub(_replacement, _DRIVE.sub("", text))


def leftovers(text: str) -> list[str]:
    """What `strip_text` would still change, in order."""
    found = (match for match in _FINDS.finditer(text) if _replacement(match) != match.group())
    return [match.group() for match in _DRIVE.finditer(text)] + [match.group() for match in found]


def _replacement(match: re.Match[str]) -> str:
    if match["key"]:
        before = match.start("name") - match.start()
        return match.group()[:before] + NAMES[match["key"]] + '"'
    installed = _INSTALLED.match(match["folders"])
    return match["folders"][installed.end() :] if installed else ""


_READ = re.compile(
    r'\{"(?:dynamo_output_graph|inductor_output_code|(?:bwd_)?compilation_metrics)": '
    r'|"name": "(?:inductor_p\w+|fx_graph_cache_\w+|torch_version|dynamo_\w+|recompile_reasons)"'
)


def shortened_log(content: bytes) -> bytes:
    """A log of TORCH_TRACE with the records that are read alone, and without what the keys of caches are made of."""
    kept = []
    for record in re.split(r"(?m)^(?=[VI]\d{4} )", content.decode()):
        head, _, payload = record.partition("\n")
        if _READ.search(head) and '"name": "fx_graph_cache' in head:
            kept.append(f"{head}\n\t{json.dumps({**json.loads(payload), 'components': []})}\n")
        elif _READ.search(head):
            kept.append(record)
    return "".join(kept).encode()


def gzipped(content: bytes) -> bytes:
    """Gzip whose header holds no time, no name and no system: the same bytes on every machine with the same zlib."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(content)
    return out.getvalue()


def strip_bytes(content: bytes) -> bytes:
    """A whole file, plain or gzipped, stripped. Bytes that are no UTF-8 pass unharmed."""
    if content[:2] == b"\x1f\x8b":
        return gzipped(strip_bytes(gzip.decompress(content)))
    return strip_text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def problems(content: bytes) -> list[str]:
    """Everything in a file, plain or gzipped, that must not be committed: short texts, each once; empty if clean."""
    header = []
    if content[:2] == b"\x1f\x8b":
        # Byte 3 of the header are its flags (8: a file name follows), bytes 4 to 7 the time.
        header = ["a time or a name in the gzip header"] if content[3] & 8 or any(content[4:8]) else []
        content = gzip.decompress(content)
    return header + list(dict.fromkeys(leftovers(content.decode("utf-8", "surrogateescape"))))


def main() -> int:
    """Strips or checks the files of the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Take host names and absolute paths out of traces.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if anything is left")
    options = parser.parse_args()
    clean = True
    for path in options.files:
        content = path.read_bytes()
        if not options.check:
            path.write_bytes(strip_bytes(content))
            continue
        for problem in problems(content):
            print(f"{path}: {problem!a}")
            clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
