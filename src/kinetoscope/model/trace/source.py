"""The source of a trace: facts that can be sent to another process, which loads it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

DEFAULT_MAX_SIZE: Final = 64 << 30
"""Bytes of text in one file, after decompression, beyond which reading stops: a guard against gzip bombs."""

DEFAULT_MAX_EVENT: Final = 256 << 20
"""Bytes of one event or of one top-level value, beyond which reading stops."""


Rates = tuple[tuple[str, float], ...]
"""Peaks by their names: operations or bytes a second, and bytes of the cache."""


@dataclass(frozen=True, slots=True)
class OwnPeaks:
    """Peaks of devices as the user gives them; they go wherever the trace is read.

    Attributes:
        given: of all devices, for this run.
        by_device: of the user's file, by the name of the device, beside or instead of the datasheet's.
        measured: of the same file, as `kinetoscope calibrate` measured them, with what it says of the measurement.
        attainable: take the measured ones.
    """

    given: Rates = ()
    by_device: tuple[tuple[str, Rates], ...] = ()
    measured: tuple[tuple[str, Rates, str], ...] = ()
    attainable: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of reading.

    Attributes:
        max_size: see DEFAULT_MAX_SIZE.
        max_event: see DEFAULT_MAX_EVENT.
        threads: threads that parse one file; 1 when many ranks are read at once.
        cache: folder for copies of remote files; "off" for none; "" for what the environment of the reader says.
        cache_size: bytes of them at most; None for what the environment says.
        peaks: what the user knows of the devices.
        events: the events are wanted, of dumps alone, too; else only what is kept with the trace.
    """

    max_size: int = DEFAULT_MAX_SIZE
    max_event: int = DEFAULT_MAX_EVENT
    threads: int = 1
    cache: str = ""
    cache_size: int | None = None
    peaks: OwnPeaks = OwnPeaks()
    events: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a job.

    Attributes:
        url: local path or fsspec URL.
        rank: the rank that it holds.
        cycle: which cycle of the profiler's schedule, from 0.
        reader: name of the reader in READERS.
        options: how to read it.
        size: bytes as stored; None where they are not known.
        companions: files that belong to it, by the kinds of `readers.companions`: `capture`, the traces that were
            recorded while its CUDA graphs were captured; `compile`, files about torch.compile; `snapshot`, memory
            snapshots of the rank, in the order in which they were taken, as far as names tell; `flight_recorder`,
            dumps of the collectives that the rank called last.
        part: label of the rank in a file that holds several; "" for a file of one.
    """

    url: str
    rank: int = 0
    cycle: int = 0
    reader: str = "kineto"
    options: SourceOptions = field(default_factory=SourceOptions)
    size: int | None = None
    part: str = ""
    companions: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def is_snapshot(self) -> bool:
        """True if it is a memory snapshot without a trace: then nothing but memory is known."""
        return self.files("snapshot") == (self.url,)

    @property
    def is_dump(self) -> bool:
        """True if it is a dump of the Flight Recorder without a trace: then nothing but collectives are known."""
        return self.url in self.files("flight_recorder")

    @property
    def is_of_host(self) -> bool:
        """True if it is what a host left, without a trace or a dump: then no event is known."""
        return self.url in self.files("hang")

    @property
    def is_of_hang(self) -> bool:
        """True if it is only what a rank of a job that hangs leaves: dumps, or what the host wrote."""
        return self.is_dump or self.is_of_host

    @property
    def is_history(self) -> bool:
        """True if it is the history of a rank without a trace: then nothing but its steps are known."""
        return self.reader == "history"

    @property
    def name(self) -> str:
        """The last part of the path, for people."""
        return self.url.rstrip("/").rpartition("/")[2] or self.url

    def files(self, companion: str) -> tuple[str, ...]:
        """The files of a kind that belong to it."""
        return self.companions.get(companion, ())
