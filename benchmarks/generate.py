"""Makes a large trace from a real one: repeats it in time, with ids of its own for each copy.

    python benchmarks/generate.py SOURCE OUT --repeat 20            twenty times the recording
    python benchmarks/generate.py SOURCE OUT.gz --size 1GB          as many times as make 1 GB of JSON
    python benchmarks/generate.py SOURCE OUT --size 1GB --distinct-strings 500000 --distinct-shapes 1000
    python benchmarks/generate.py SOURCE 'job/rank{rank}.json.gz' --repeat 4 --ranks 8

Copies share threads, streams, addresses, sizes and names. Each has for itself its time (moved by the length of the
recording, exact to the nanosecond), its numbers of steps, and every id that links events: correlation, External id,
flows, Ev Idx, Python id and parent, Sequence number, Record function id, CUDA events. Metadata and M events
stand once; the span of the whole recording is stretched over all copies. The same arguments give the same bytes.

Not kept: a key that one event has twice. An error: a time with more than three decimals. Memory: about ten times the
JSON of the source, whatever the size of the output.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: Python then looks for modules beside this file, and not where benchmarks is
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.layout import Style
from benchmarks.template import Template, read, template
from benchmarks.writing import chunks, opened, size_of_copy

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True, slots=True)
class Written:
    """What was made: the file, how many copies and events are in it, and how many bytes of JSON before compression."""

    path: Path
    copies: int
    events: int
    size: int


def generate(
    source: Path,
    out: Path,
    *,
    repeat: int | None = None,
    size: int | None = None,
    distinct_strings: int = 0,
    distinct_shapes: int = 0,
    rank: int | None = None,
    world_size: int = 1,
    style: Style = "torch",
) -> Written:
    """Writes `repeat` copies of `source`, or as many as make `size` bytes of JSON, to `out`.

    Args:
        source: a Kineto trace, gzipped or not.
        out: the file to write; `.gz` and `.zst` compress.
        repeat: number of copies; give this or `size`.
        size: least number of bytes of JSON.
        distinct_strings: how many distinct names of ops, kernels and Python frames, and call stacks, replace those of
            the source; 0 keeps these. A trace with fewer places for them gets fewer.
        distinct_shapes: how many sets of additional arguments are spread over the events that have arguments.
        rank: written as `distributedInfo.rank`; None keeps what the source has.
        world_size: written beside `rank`.
        style: "torch" as the exporter lays it out, or "indent" as `json.dump(..., indent=2)` does.

    Raises:
        ValueError: the source is no trace or has a time that cannot be moved exactly; not one of `repeat` and `size`.
    """
    parts = _template(read(source), rank, world_size, style, distinct_strings, distinct_shapes)
    return write(parts, out, repeat=repeat, size=size)


def write(parts: Template, out: Path, *, repeat: int | None = None, size: int | None = None) -> Written:
    """The second half of `generate`, for many outputs of one template."""
    if (repeat is None) == (size is None):
        raise ValueError("give either the number of copies or the size")
    copies = repeat if repeat is not None else max(-(-(size or 0) // size_of_copy(parts)), 1)
    if copies < 1:
        raise ValueError(f"cannot write {copies} copies: at least 1")
    out.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with opened(out) as file:
        for chunk in chunks(parts, copies):
            file.write(chunk)
            written += len(chunk)
    first, body, last = parts.events
    return Written(out, copies, first + body * copies + last, written)


def parsed_size(given: str) -> int:
    """Bytes of "500MB", "1.5 GB" or "1000"."""
    match = re.fullmatch(r"([\d.]+)\s*([KMG]?)B?", given.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{given!r} is not a size such as 500MB or 1GB")
    return int(float(match[1]) * _UNITS[match[2]])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", help="file to write; .gz and .zst compress; {rank} stands for the rank")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--repeat", type=int, metavar="N", help="number of copies")
    amount.add_argument("--size", type=parsed_size, metavar="SIZE", help="least size of the JSON, such as 1GB")
    parser.add_argument("--distinct-strings", type=int, default=0, metavar="K", help="distinct names and call stacks")
    parser.add_argument("--distinct-shapes", type=int, default=0, metavar="K", help="sets of additional arguments")
    parser.add_argument("--rank", type=int, metavar="R", help="write distributedInfo with this rank")
    parser.add_argument("--ranks", type=int, metavar="R", help="write R files, ranks 0 to R - 1; OUT holds {rank}")
    parser.add_argument("--indent", action="store_true", help="indented, not as torch lays it out")
    given = parser.parse_args(arguments)
    if given.ranks and ("{rank}" not in given.out or given.rank is not None):
        parser.error("--ranks needs {rank} in OUT, and no --rank")
    document = read(given.source)
    style: Style = "indent" if given.indent else "torch"
    for rank in range(given.ranks) if given.ranks else [given.rank]:
        parts = _template(document, rank, given.ranks or 1, style, given.distinct_strings, given.distinct_shapes)
        made = write(parts, Path(given.out.replace("{rank}", str(rank))), repeat=given.repeat, size=given.size)
        print(f"{made.path}: {made.copies} copies, {made.events:,} events, {made.size / 1e6:,.1f} MB of JSON")


def _template(document: Any, rank: int | None, world_size: int, style: Style, strings: int, shapes: int) -> Template:
    extra = {}
    if rank is not None:
        known = document.get("distributedInfo", {}) if isinstance(document, dict) else {}
        extra["distributedInfo"] = {"backend": "nccl", **known, "rank": rank, "world_size": world_size}
    return template(document, style=style, strings=strings, shapes=shapes, extra=extra)


if __name__ == "__main__":
    main()
