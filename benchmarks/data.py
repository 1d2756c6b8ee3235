"""The files that benchmarks read, made on first use and kept in benchmarks/.data, which git ignores."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isal import igzip

from benchmarks.device import with_device
from benchmarks.generate import Written, generate, parsed_size, write
from benchmarks.template import read, template
from benchmarks.writing import opened, zstd

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / ".data"
DEMO = ROOT / "src" / "kinetoscope" / "demo" / "training.pt.trace.json.gz"
# What `python -m benchmarks` sets for the processes that it starts.
_SOURCE, _SIZE = "KINETOSCOPE_BENCH_TRACE", "KINETOSCOPE_BENCH_SIZE"
# What a file is made by: when one of these changes, the files are made anew.
_MAKERS = ("device.py", "generate.py", "layout.py", "marking.py", "template.py", "variety.py", "writing.py")


def source() -> Path:
    """The trace that the others are made of: what $KINETOSCOPE_BENCH_TRACE names, or the demo trace with a device."""
    named = os.environ.get(_SOURCE)
    return Path(named) if named else with_drawn_device(DEMO)


def size() -> int:
    """Bytes of JSON in the files that are made."""
    return parsed_size(os.environ.get(_SIZE, "250MB"))


def with_drawn_device(path: Path) -> Path:
    """The trace at `path` with a device drawn beside it."""
    out = FOLDER / f"device-{_key(path, {})}.json.gz"
    if not out.exists():
        _keep(out, lambda part: write(template(with_device(read(path))), part, repeat=1))
    return out


def large(path: Path, suffix: str = ".json", **how: Any) -> Path:
    """A trace that `generate` makes from `path` in this way, as rank 0 of a job.

    Args:
        path: the trace that is repeated.
        suffix: ".json", ".json.gz" or ".json.zst".
        how: what `generate` takes: repeat or size, distinct_strings, distinct_shapes, style.
    """
    out = FOLDER / f"trace-{_key(path, {**how, 'suffix': suffix})}{suffix}"
    if not out.exists():
        _keep(out, lambda part: generate(path, part, rank=0, **how))
    return out


def ranked(path: Path) -> Path:
    """The same text with a rank in it, without which HTA refuses a trace; the file itself if there is one."""
    text = _read(path)
    if re.search(rb'"rank":\s', text):
        return path
    out = FOLDER / f"ranked-{_key(path, {})}.json{path.suffix if path.suffix != '.json' else ''}"
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        with opened(out) as file:
            file.write(
                text.replace(b"{", b'{\n  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},', 1)
            )
    return out


def json_size(path: Path) -> int:
    """Bytes of JSON in a file, compressed or not."""
    with _reading(path) as file:
        return sum(map(len, iter(lambda: file.read(2**22), b"")))


def _read(path: Path) -> bytes:
    with _reading(path) as file:
        return bytes(file.read())


def _reading(path: Path) -> Any:
    openers: dict[str, Any] = {".gz": igzip.open, ".zst": zstd.open}
    return openers.get(path.suffix, open)(path, "rb")


def _keep(out: Path, make: Callable[[Path], Written]) -> None:
    """Makes `out` under another name first, so that an interrupted run leaves nothing that looks done."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"part-{out.name}")
    made = make(part)
    part.replace(out)
    print(f"made {out.relative_to(ROOT)}: {made.events:,} events, {made.size / 1e6:,.0f} MB of JSON", file=sys.stderr)


def _key(path: Path, how: Mapping[str, Any]) -> str:
    """Says which file it is: what it is made from, how, and by which code."""
    digest = hashlib.sha256(repr(sorted(how.items())).encode())
    for part in (path, *(ROOT / "benchmarks" / name for name in _MAKERS)):
        digest.update(part.read_bytes())
    return digest.hexdigest()[:12]
