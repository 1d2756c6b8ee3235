"""Logs of devices that belong to the traces of a run: CSV of nvidia-smi and its kin, text of DCGM, with times."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.errors import BrokenTraceError, LimitError
from kinetoscope.model.counters.device_log import DeviceLog
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.job.companion_files import CompanionFiles, Head
from kinetoscope.readers.job.dcgm_logs import is_head, rows_of_dcgm
from kinetoscope.readers.reader import CandidateFile

FOLDER: Final = "device_log"

_HEADER: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?[^\n]*\btimestamp\b[^\n]*,[^\n]*(?:power|clock|utilization|temperature|usage|_clk)",
    re.IGNORECASE,
)
_UNIT: Final = re.compile(r"\s*\[([^\]]{1,12})\]\s*\Z")
_VALUE: Final = re.compile(r"\s*(-?\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z%°/]{0,6})\s*\Z")
_BITS: Final = re.compile(r"0x[0-9A-Fa-f]{1,16}")
_FLAGS: Final = {"Active": 1.0, "Not Active": 0.0}
_DEVICES: Final = ("index", "gpu", "GPU", "device", "gpu_id")
_IDENTITIES: Final = ("pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")
"""Columns that tell devices apart without a number: nvidia-smi lists them in the order of theirs."""

_DIGITS: Final = re.compile(r"\d{1,4}\Z")
_FORMATS: Final = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")
_MAX_BYTES: Final = 1 << 30
_MAX_COLUMNS: Final = 256
_MAX_SECONDS: Final = 1 << 33


def _recognises(_: str, head: Head) -> bool:
    return _HEADER.match(head()) is not None or is_head(head().partition(b"\n")[0].decode("utf-8", "replace"))


def log_at(source: Source, url: str) -> DeviceLog:
    """The log in a file.

    Raises:
        NotFoundError, LimitError: it cannot be read.
        BrokenTraceError: no line of it has a time and a value.
    """
    lines = _lines(source, url)
    first = next(lines, "")
    from_dcgm = is_head(first)
    rows = rows_of_dcgm(first, lines, url) if from_dcgm else csv.reader(itertools.chain([first], lines))
    try:
        header = [each.strip() for each in next(rows, [])][:_MAX_COLUMNS]
        at = next(place for place, name in enumerate(header) if "timestamp" in name.lower())
        device = next((header.index(name) for name in (*_DEVICES, *_IDENTITIES) if name in header), None)
        read = [row for row in rows if len(row) > at]
    except (csv.Error, StopIteration) as error:
        raise BrokenTraceError(f"{url}: no log of devices that can be read: {error}") from error
    times = [_time(row[at]) for row in read]
    chosen = [place for place, time in enumerate(times) if time is not None]
    if not chosen:
        raise BrokenTraceError(f"{url}: a log of devices in which no line has a time")
    own = [place for place in range(len(header)) if place not in (at, device)]
    columns = {_title(header[place], [read[row] for row in chosen[:1]], place): place for place in own}
    values = {
        name: np.array([_value(read[row], place) for row in chosen], np.float64) for name, place in columns.items()
    }
    return DeviceLog(
        url=url,
        program="DCGM" if from_dcgm else "nvidia-smi" if "[" in "".join(header) or "index" in header else "device log",
        is_utc=all(time[1] for time in times if time is not None),
        time=np.array([time[0] for time in times if time is not None], np.int64),
        device=_devices(header, [read[row] for row in chosen], device),
        values={name: column for name, column in values.items() if not np.isnan(column).all()},
    )


def _lines(source: Source, url: str) -> Iterator[str]:
    rest, size = b"", 0
    with opened(source, url=url) as blocks:
        for block in blocks:
            size += len(block)
            if size > _MAX_BYTES:
                raise LimitError(f"{url}: more than {_MAX_BYTES >> 20} MB, which no log of devices has")
            *lines, rest = (rest + bytes(block)).split(b"\n")
            yield from (line.decode("utf-8", "replace").lstrip("\ufeff").replace("\0", "") for line in lines)
    yield rest.decode("utf-8", "replace").replace("\0", "")


def _time(text: str) -> tuple[int, bool] | None:
    """A time in ns, and whether it is one since 1970 in UTC; None for anything else."""
    if (number := _VALUE.match(text)) is not None:
        seconds = Decimal(number[1])
        return (int(seconds * 10**9), True) if 0 < seconds < _MAX_SECONDS else None
    for form in _FORMATS:
        try:
            said = datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return (int(said.timestamp()) * 10**9 + said.microsecond * 1000, False) if said.year >= 1970 else None
    return None


def _title(name: str, rows: Sequence[Sequence[str]], place: int) -> str:
    """The name of a column, its unit in brackets behind it: from the header, or from its first cell."""
    in_header = _UNIT.search(name)
    if in_header:
        return f"{name[: in_header.start()]} ({in_header[1]})"
    cell = _VALUE.match(rows[0][place]) if rows and len(rows[0]) > place else None
    return f"{name} ({cell[2]})" if cell and cell[2] else name


def _value(row: Sequence[str], place: int) -> float:
    text = row[place].strip() if len(row) > place else ""
    if text in _FLAGS:
        return _FLAGS[text]
    if _BITS.fullmatch(text):
        return float(int(text, 16))
    cell = _VALUE.match(text)
    return float(cell[1]) if cell else np.nan


def _devices(header: Sequence[str], rows: Sequence[Sequence[str]], place: int | None) -> Int32s:
    """The number of the device of each row; 0 where no column says."""
    if place is None:
        return np.zeros(len(rows), np.int32)
    texts = [row[place].strip() if len(row) > place else "" for row in rows]
    if header[place] in _IDENTITIES:
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    else:
        numbers = {text: int(digits[0]) if (digits := _DIGITS.search(text)) else 0 for text in {*texts}}
    return np.array([numbers[text] for text in texts], np.int32)


def _joined(sources: Sequence[Source], files: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The logs of each trace: those that begin with its host, as the recorder's do, and those of no trace's host."""
    names = [each.url.rpartition("/")[2] for each in sources]
    hosts = {each.url: f"{each.url.rpartition('/')[2].partition('.')[0]}_" for each in files}
    placed = {url for url, host in hosts.items() if any(name.startswith(host) for name in names)}
    of_each = [
        tuple(sorted(url for url, host in hosts.items() if url not in placed or name.startswith(host)))
        for name in names
    ]
    return of_each, []


FILES: Final = CompanionFiles(
    (FOLDER,),
    _recognises,
    "no log of devices; nvidia-smi --query-gpu=timestamp,index,power.draw,clocks.sm --format=csv -lms 100 writes one",
    log_at,
    join=_joined,
)
