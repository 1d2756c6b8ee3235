"""The files that benchmarks read, made on first use and kept in benchmarks/.data, which git ignores."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isal import igzip

from benchmarks.device import with_device
from benchmarks.generate import Written, generate, write
from benchmarks.template import read, template
from benchmarks.writing import zstd

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / ".data"
DEMO = ROOT / "src" / "kinetoscope" / "demo" / "training.pt.trace.json.gz"
SOURCE_VARIABLE = "KINETOSCOPE_BENCH_TRACE"
# What a file is made by: when one of these changes, the files are made anew.
_MAKERS = ("device.py", "generate.py", "layout.py", "marking.py", "template.py", "variety.py", "writing.py")


def source() -> Path:
    """The trace that the others are made of: what $KINETOSCOPE_BENCH_TRACE names, or the demo trace with a device."""
    named = os.environ.get(SOURCE_VARIABLE)
    return Path(named) if named else with_drawn_device(DEMO)


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


def json_size(path: Path) -> int:
    """Bytes of JSON in a file, compressed or not."""
    if path.suffix == ".json":
        return path.stat().st_size
    opener: Any = igzip.open if path.suffix == ".gz" else zstd.open
    with opener(path, "rb") as file:
        return sum(map(len, iter(lambda: file.read(2**22), b"")))


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
