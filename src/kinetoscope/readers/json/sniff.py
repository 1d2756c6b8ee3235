"""Recognises files that are no Kineto traces by their first bytes.

This comes before parsing, so only certain cases are named: a file that may be a trace, even a broken one, is left to
the reader. File names do not matter. Nothing is unpacked, unpickled or opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kinetoscope.readers.reader import HEAD_BYTES

_RECORD = "record with torch.profiler.profile(...) and save with prof.export_chrome_trace('trace.json.gz')"
_UNPACK = "unpack it first; .json, .json.gz and .json.zst are read as they are"
_COPY_AGAIN = "copy or download it again, or " + _RECORD
_FOLDER = "if `kinetoscope convert` wrote it, name the folder that it wrote to; else " + _RECORD
_COMPANION = "open the trace of the same run, as prof.export_chrome_trace('trace.json.gz') writes it"


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A format that is no trace: its name, and a hint what to do instead."""

    name: str
    hint: str = _RECORD


_MAGIC: Final[dict[bytes, OtherFormat]] = {
    b"\x1f\x8b": OtherFormat("gzip data inside a compressed file (it was compressed twice)", "decompress it once"),
    b"\x28\xb5\x2f\xfd": OtherFormat(
        "zstd data inside a compressed file (it was compressed twice)", "decompress it once"
    ),
    b"BZh": OtherFormat("a bzip2 archive", _UNPACK),
    b"\xfd7zXZ\x00": OtherFormat("an xz archive", _UNPACK),
    b"\x04\x22\x4d\x18": OtherFormat("an lz4 archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": OtherFormat("a 7-Zip archive", _UNPACK),
    b"Rar!\x1a\x07": OtherFormat("a RAR archive", _UNPACK),
    b"\x7fELF": OtherFormat("a program or library (ELF)"),
    b"MZ": OtherFormat("a Windows program or library"),
    b"\xcf\xfa\xed\xfe": OtherFormat("a macOS program or library"),
    b"\xca\xfe\xba\xbe": OtherFormat("a macOS program or library"),
    b"\x89HDF\r\n\x1a\n": OtherFormat("an HDF5 file"),
    b"\x93NUMPY": OtherFormat("a NumPy array"),
    b"PAR1": OtherFormat(
        "a Parquet file", f"if `kinetoscope convert` wrote it, name the folder that it wrote to; else {_RECORD}"
    ),
    b"ARROW1": OtherFormat("an Arrow file"),
    b"GGUF": OtherFormat("model weights (GGUF)"),
    b"\x89PNG\r\n": OtherFormat("a PNG image"),
    b"\xff\xd8\xff": OtherFormat("a JPEG image"),
    b"%PDF": OtherFormat("a PDF document"),
}
"""Formats by the first bytes of a file."""

_EXECUTION_TRACE = OtherFormat("a PyTorch execution trace (ExecutionTraceObserver, Chakra)", _COMPANION)
_OBJECTS: Final[tuple[tuple[tuple[str, ...], bytes, OtherFormat], ...]] = (
    (("schema", "nodes"), b"", _EXECUTION_TRACE),
    (("rocprofiler-sdk-tool",), b"", OtherFormat("the results of rocprofv3")),
    (("nodes",), b'"callFrame"', OtherFormat("a CPU profile of JavaScript (.cpuprofile)")),
    (("profiles",), b"speedscope", OtherFormat("a Speedscope profile")),
    (("$schema",), b"speedscope.app", OtherFormat("a Speedscope profile")),
    (("nbformat",), b"", OtherFormat("a Jupyter notebook")),
    (("cells", "metadata"), b'"cell_type"', OtherFormat("a Jupyter notebook")),
)
"""Formats of JSON objects: keys that must all stand at the top level, and text that must occur."""

NODE_ANNOTATIONS: Final = OtherFormat(
    "annotations of the nodes of CUDA graphs", "name the trace of their replays, and this file as --capture"
)
_NODE_KEY = re.compile(rb'\A\{\s*"[0-9]{1,20}"\s*:')

_EVENTS_KEY = b'"traceEvents"'
_MERGED = re.compile(rb'\A\{\s*"mergedRanks"')
_KINETO = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|cpu_op|python_function)"'
)
_DEVTOOLS = re.compile(rb'"source"\s*:\s*"DevTools"|"Cr(?:Renderer|Browser)Main"|"devtools\.timeline')
_ROCPROF = re.compile(rb'"name"\s*:\s*"(?:[0-9]+ )?CPU H(?:IP|SA) API"|"BeginNs"')
_EVENT = re.compile(rb'\{\s*"(?:ph|cat|name|ts|dur|pid|tid|args)"\s*:')
_TOKEN = re.compile(rb'"((?:[^"\\]|\\(?:.|\Z))*+)(?:"(\s*+:)?|\Z)|[{}\[\]]', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_PLANE = re.compile(rb"\x12[\x05-\x7f](?:/host:|/device:|Task Environment)")
_TABLE = re.compile(rb"Self (?:CPU|CUDA|XPU) (?:%|time total|total)")
_TORCH_ZIP = re.compile(rb"/data\.pkl|/constants\.pkl|/byteorder|archive/|\.data/serialization_id")
_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0\0{", b"\0\0\0[")


def other_format(head: bytes) -> OtherFormat | None:
    """The format of a file that is no trace; None if it may be one.

    Args:
        head: the beginning of the content (decompressed, if it was .gz or .zst), of which `HEAD_BYTES` count.
    """
    head = head[:HEAD_BYTES]
    if (other := _binary_format(head)) is not None:
        return other
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return OtherFormat("a file with nothing but white space" if head else "an empty file", _COPY_AGAIN)
    if _EVENTS_KEY in text:
        return _other_events(text)
    if text.startswith(b"{"):
        return _json_lines(text) or _object(text)
    if text.startswith(b"["):
        return _json_lines(text) or _list(text)
    return None if _EVENT.search(text) else _plain(text)


def _binary_format(head: bytes) -> OtherFormat | None:
    """The format of a binary file; None if it is text (or empty)."""
    for magic, format_ in _MAGIC.items():
        if head.startswith(magic):
            return format_
    for recognise in (_zip, _sqlite, _pickle, _other_encoding):
        if (other := recognise(head)) is not None:
            return other
    if head[257:262] == b"ustar":
        return OtherFormat("a tar archive", _UNPACK)
    if head and not head.strip(b"\0"):
        return OtherFormat("nothing but zero bytes (the file was never written, or its disk was full)", _COPY_AGAIN)
    if head.lstrip()[:1] in (b"{", b"[") or _EVENTS_KEY in head or not _CONTROL.search(head):
        return None  # rubbish bytes inside a trace are the reader's business
    return _protobuf(head)


# --- binary


def _zip(head: bytes) -> OtherFormat | None:
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    if _TORCH_ZIP.search(head):
        return OtherFormat("a PyTorch checkpoint or exported model (torch.save)")
    return OtherFormat("a zip archive", _UNPACK)


def _sqlite(head: bytes) -> OtherFormat | None:
    if not head.startswith(b"SQLite format 3\0"):
        return None
    if b"rocpd_" in head:
        return OtherFormat("a database of rocprofv3 (rocpd)")
    if re.search(b"CUPTI_|StringIds|TARGET_INFO|NVTX_EVENTS", head):
        return OtherFormat("a database of Nsight Systems")
    return OtherFormat("an SQLite database (of Nsight Systems?)")


def _pickle(head: bytes) -> OtherFormat | None:
    if not re.match(rb"\x80[\x02-\x05]", head):
        return None
    if head.startswith(_OLD_TORCH):
        return OtherFormat("a PyTorch checkpoint (torch.save, old form)")
    return OtherFormat("a Python pickle, which is not opened because it could run code")


def _other_encoding(head: bytes) -> OtherFormat | None:
    if not head.startswith(_UTF16_STARTS):
        return None
    hint = "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
    return OtherFormat("text in UTF-16 or UTF-32 (as PowerShell's > writes it)", hint)


def _protobuf(head: bytes) -> OtherFormat:
    if b"brain.Event:" in head[:64]:
        return OtherFormat("a TensorBoard event file")
    if _PLANE.search(head):
        return OtherFormat("an XPlane profile of XLA (TensorFlow, JAX, torch_xla)", "open it with XProf, or " + _RECORD)
    return OtherFormat("binary data of an unknown kind")


# --- JSON


def _other_events(text: bytes) -> OtherFormat | None:
    """Files with `traceEvents` that come from elsewhere."""
    if _MERGED.search(text):
        return OtherFormat("the ranks of a job merged into one file for Perfetto", "open the files of its ranks")
    if _KINETO.search(text):
        return None
    if _DEVTOOLS.search(text):
        return OtherFormat("a recording of Chrome's DevTools")
    if _ROCPROF.search(text):
        return OtherFormat("the results of rocprof")
    return None


def _object(text: bytes) -> OtherFormat | None:
    if _NODE_KEY.match(text):
        return NODE_ANNOTATIONS
    keys = _top_level_keys(text)
    for needed, inside, other in _OBJECTS:
        if keys.keys() >= {*needed} and inside in text:
            return other
    if _strictly(text) is None or _EVENT.match(text):
        return None  # there is more of it: the events may follow
    named = ", ".join(keys) if len(keys) <= 5 else ", ".join(list(keys)[:5]) + ", …"
    return OtherFormat(f"a JSON object without traceEvents (its keys: {named or 'none'})")


def _list(text: bytes) -> OtherFormat | None:
    if b'"ph"' in text:
        return None
    if re.match(rb"\[\s*(?:\{|\]|\Z)", text) and not (_strictly(text) or _first_item(text)):
        return None
    return OtherFormat("a JSON list that holds no trace events")


def _json_lines(text: bytes) -> OtherFormat | None:
    line, _, rest = text.partition(b"\n")
    if not rest.lstrip().startswith(line[:1]) or not _strictly(line):
        return None
    if b'"ph"' in line:
        return OtherFormat("trace events as JSON lines", "make a list of them: jq -s . FILE > trace.json")
    return OtherFormat("JSON lines")


def _top_level_keys(text: bytes) -> dict[str, None]:
    """Keys of the outermost object as far as `text` goes, in order."""
    keys: dict[str, None] = {}
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[1] is None:
            depth += 1 if token[0] in b"{[" else -1
        elif depth == 1 and token[2]:
            keys[token[1].decode(errors="replace")] = None
    return keys


def _strictly(text: bytes) -> object:
    """The value of `text`, None if it is not (yet) valid JSON."""
    try:
        value: object = json.loads(text, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return value


def _first_item(text: bytes) -> bool:
    """Whether the first item of the list is complete."""
    start = text.index(b"{") if b"{" in text else len(text)
    decode: Callable[[str], object] = json.JSONDecoder(parse_int=str).raw_decode
    try:
        decode(text[start:].decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


# --- other text


def _plain(text: bytes) -> OtherFormat:
    start = text[:512].lower()
    if start.startswith(b"version https://git-lfs"):
        return OtherFormat("a pointer of Git LFS in place of the file", "fetch the file itself: git lfs pull")
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<!-- saved")):
        if b"<title>gpu memory timeline html" in start:
            hint = (
                "it holds no numbers: export_memory_timeline writes them where the name ends in .json or .raw.json.gz"
            )
            return OtherFormat("a picture of a memory timeline (export_memory_timeline)", hint)
        hint = "download the file itself (this may be a log-in or error page), or " + _RECORD
        return OtherFormat("an HTML page", hint)
    if start.startswith(b"<"):
        return OtherFormat("an XML document (an error message of the store?)", _COPY_AGAIN)
    if _TABLE.search(text):
        return OtherFormat("the table that key_averages().table() prints")
    stack, _, count = text.partition(b"\n")[0].rpartition(b" ")
    if b";" in stack and count.strip().isdigit():
        return OtherFormat("folded stacks (export_stacks)", _COMPANION)
    return OtherFormat("plain text")
