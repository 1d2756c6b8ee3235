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

HEAD: Final = 1 << 16
"""As many bytes as are looked at."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """A format that is no trace: its name, and a hint what to do instead."""

    what: str
    hint: str


_HINT_RECORD = "record with torch.profiler.profile(...) and save with prof.export_chrome_trace('trace.json.gz')"
_HINT_UNPACK = "unpack it first; .json, .json.gz and .json.zst are read as they are"
_HINT_AGAIN = "copy or download it again, or " + _HINT_RECORD
_HINT_COMPANION = "open the trace of the same run, as prof.export_chrome_trace('trace.json.gz') writes it"

# (first bytes, what it is, what to do)
_MAGIC: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"\x1f\x8b", "gzip data inside a compressed file (it was compressed twice)", "decompress it once"),
    (b"\x28\xb5\x2f\xfd", "zstd data inside a compressed file (it was compressed twice)", "decompress it once"),
    (b"BZh", "a bzip2 archive", _HINT_UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive", _HINT_UNPACK),
    (b"\x04\x22\x4d\x18", "an lz4 archive", _HINT_UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _HINT_UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _HINT_UNPACK),
    (b"\x7fELF", "a program or library (ELF)", _HINT_RECORD),
    (b"MZ", "a Windows program or library", _HINT_RECORD),
    (b"\xcf\xfa\xed\xfe", "a macOS program or library", _HINT_RECORD),
    (b"\xca\xfe\xba\xbe", "a macOS program or library", _HINT_RECORD),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _HINT_RECORD),
    (b"\x93NUMPY", "a NumPy array", _HINT_RECORD),
    (
        b"PAR1",
        "a Parquet file",
        "if `kinetoscope convert` wrote it, name the folder that it wrote to; else " + _HINT_RECORD,
    ),
    (b"ARROW1", "an Arrow file", _HINT_RECORD),
    (b"GGUF", "model weights (GGUF)", _HINT_RECORD),
    (b"\x89PNG\r\n", "a PNG image", _HINT_RECORD),
    (b"\xff\xd8\xff", "a JPEG image", _HINT_RECORD),
    (b"%PDF", "a PDF document", _HINT_RECORD),
)

# (keys that must all stand at the top level, text that must occur, what it is, what to do)
_OBJECTS: Final[tuple[tuple[frozenset[str], bytes, str, str], ...]] = (
    (
        frozenset({"schema", "nodes"}),
        b"",
        "a PyTorch execution trace (ExecutionTraceObserver, Chakra)",
        _HINT_COMPANION,
    ),
    (frozenset({"segments"}), b"", "a memory snapshot of the CUDA allocator as JSON", _HINT_COMPANION),
    (frozenset({"device_traces"}), b"", "a memory snapshot of the CUDA allocator as JSON", _HINT_COMPANION),
    (frozenset({"rocprofiler-sdk-tool"}), b"", "the results of rocprofv3", _HINT_RECORD),
    (frozenset({"nodes"}), b'"callFrame"', "a CPU profile of JavaScript (.cpuprofile)", _HINT_RECORD),
    (frozenset({"profiles"}), b"speedscope", "a Speedscope profile", _HINT_RECORD),
    (frozenset({"$schema"}), b"speedscope.app", "a Speedscope profile", _HINT_RECORD),
    (frozenset({"nbformat"}), b"", "a Jupyter notebook", _HINT_RECORD),
    (frozenset({"cells", "metadata"}), b'"cell_type"', "a Jupyter notebook", _HINT_RECORD),
)

_EVENTS_KEY = b'"traceEvents"'
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


def what_is(head: bytes) -> Recognised | None:
    """The format of a file that is no trace; None if it may be one.

    Args:
        head: the beginning of the content (decompressed, if it was .gz or .zst), of which `HEAD` bytes are looked at.
    """
    head = head[:HEAD]
    recognised = what_is_binary(head)
    if recognised is not None:
        return recognised
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return (
            Recognised("a file with nothing but white space", _HINT_AGAIN)
            if head
            else Recognised("an empty file", _HINT_AGAIN)
        )
    if _EVENTS_KEY in text:
        return _other_events(text)
    if text.startswith(b"{"):
        return _json_lines(text) or _object(text)
    if text.startswith(b"["):
        return _json_lines(text) or _list(text)
    return None if _EVENT.search(text) else _plain(text)


def what_is_binary(head: bytes) -> Recognised | None:
    """The format of a binary file; None if it is text (or empty)."""
    for magic, what, hint in _MAGIC:
        if head.startswith(magic):
            return Recognised(what, hint)
    for recognise in (_zip, _sqlite, _pickle, _other_encoding):
        if recognised := recognise(head):
            return recognised
    if head[257:262] == b"ustar":
        return Recognised("a tar archive", _HINT_UNPACK)
    if head and not head.strip(b"\0"):
        return Recognised("nothing but zero bytes (the file was never written, or its disk was full)", _HINT_AGAIN)
    if head.lstrip()[:1] in (b"{", b"[") or _EVENTS_KEY in head or not _CONTROL.search(head):
        return None  # rubbish bytes inside a trace are the reader's business
    return _protobuf(head)


# --- binary


def _zip(head: bytes) -> Recognised | None:
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    if _TORCH_ZIP.search(head):
        return Recognised("a PyTorch checkpoint or exported model (torch.save)", _HINT_RECORD)
    return Recognised("a zip archive", _HINT_UNPACK)


def _sqlite(head: bytes) -> Recognised | None:
    if not head.startswith(b"SQLite format 3\0"):
        return None
    if b"rocpd_" in head:
        return Recognised("a database of rocprofv3 (rocpd)", _HINT_RECORD)
    if re.search(b"CUPTI_|StringIds|TARGET_INFO|NVTX_EVENTS", head):
        return Recognised("a database of Nsight Systems", _HINT_RECORD)
    return Recognised("an SQLite database (of Nsight Systems?)", _HINT_RECORD)


def _pickle(head: bytes) -> Recognised | None:
    if not re.match(rb"\x80[\x02-\x05]", head):
        return None
    if head.startswith(_OLD_TORCH):
        return Recognised("a PyTorch checkpoint (torch.save, old form)", _HINT_RECORD)
    if b"segments" in head or b"device_traces" in head:
        hint = "look at it on pytorch.org/memory_viz, or " + _HINT_COMPANION
        return Recognised("a memory snapshot of the CUDA allocator (pickled)", hint)
    return Recognised("a Python pickle, which is not opened because it could run code", _HINT_RECORD)


def _other_encoding(head: bytes) -> Recognised | None:
    if not head.startswith(_UTF16_STARTS):
        return None
    return Recognised(
        "text in UTF-16 or UTF-32 (as PowerShell's > writes it)", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
    )


def _protobuf(head: bytes) -> Recognised:
    if b"brain.Event:" in head[:64]:
        return Recognised("a TensorBoard event file", _HINT_RECORD)
    if _PLANE.search(head):
        return Recognised(
            "an XPlane profile of XLA (TensorFlow, JAX, torch_xla)", "open it with XProf, or " + _HINT_RECORD
        )
    if _packets(head) >= 2:
        hint = "open it on ui.perfetto.dev, or " + _HINT_RECORD
        return Recognised("a Perfetto trace in its binary form", hint)
    return Recognised("binary data of an unknown kind", _HINT_RECORD)


def _packets(head: bytes) -> int:
    """Number of packets of a Perfetto trace (field 1, length, content) in a row; 0 if anything else occurs."""
    at = count = 0
    while at < len(head):
        if head[at] != 0x0A:
            return 0
        length = shift = 0
        at += 1
        while at < len(head) and shift < 35:
            length |= (head[at] & 0x7F) << shift
            shift += 7
            at += 1
            if head[at - 1] < 0x80:
                break
        at += length
        count += 1
    return count


# --- JSON


def _other_events(text: bytes) -> Recognised | None:
    """Files with `traceEvents` that come from elsewhere."""
    if _KINETO.search(text):
        return None
    if _DEVTOOLS.search(text):
        return Recognised("a recording of Chrome's DevTools", _HINT_RECORD)
    if _ROCPROF.search(text):
        return Recognised("the results of rocprof", _HINT_RECORD)
    return None


def _object(text: bytes) -> Recognised | None:
    keys = _top_level_keys(text)
    for needed, inside, what, hint in _OBJECTS:
        if needed <= keys.keys() and inside in text:
            return Recognised(what, hint)
    if _strictly(text) is None or _EVENT.match(text):
        return None  # there is more of it: the events may follow
    named = ", ".join(keys) if len(keys) <= 5 else ", ".join(list(keys)[:5]) + ", …"
    return Recognised(f"a JSON object without traceEvents (its keys: {named or 'none'})", _HINT_RECORD)


def _list(text: bytes) -> Recognised | None:
    if re.match(rb"\[\s*\[\s*-?[0-9]", text):
        return Recognised("a memory timeline (export_memory_timeline)", _HINT_COMPANION)
    if b'"ph"' in text:
        return None
    if re.match(rb"\[\s*(?:\{|\]|\Z)", text) and not (_strictly(text) or _first_item(text)):
        return None
    return Recognised("a JSON list that holds no trace events", _HINT_RECORD)


def _json_lines(text: bytes) -> Recognised | None:
    line, _, rest = text.partition(b"\n")
    if not rest.lstrip().startswith(line[:1]) or not _strictly(line):
        return None
    if b'"ph"' in line:
        return Recognised("trace events as JSON lines", "make a list of them: jq -s . FILE > trace.json")
    return Recognised("JSON lines", _HINT_RECORD)


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


def _plain(text: bytes) -> Recognised:
    start = text[:512].lower()
    if start.startswith(b"version https://git-lfs"):
        return Recognised("a pointer of Git LFS in place of the file", "fetch the file itself: git lfs pull")
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<!-- saved")):
        hint = "download the file itself (this may be a log-in or error page), or " + _HINT_RECORD
        return Recognised("an HTML page", hint)
    if start.startswith(b"<"):
        return Recognised("an XML document (an error message of the store?)", _HINT_AGAIN)
    if _TABLE.search(text):
        return Recognised("the table that key_averages().table() prints", _HINT_RECORD)
    stack, _, count = text.partition(b"\n")[0].rpartition(b" ")
    if b";" in stack and count.strip().isdigit():
        return Recognised("folded stacks (export_stacks)", _HINT_COMPANION)
    return Recognised("plain text", _HINT_RECORD)
