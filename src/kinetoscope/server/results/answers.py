"""Answers about the server, its runs, the analyses and the tables, and rows of any result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kinetoscope.schema import Column, Unit
from kinetoscope.server.query import InputKind
from kinetoscope.views.numbers import Scale


@dataclass(frozen=True, slots=True)
class ServerFeatures:
    """Optional features: folders of sources may be read, Perfetto is served, the editor that opens files ("": none)."""

    source_roots: bool = False
    perfetto: bool = False
    editor: str = ""


@dataclass(frozen=True, slots=True)
class PageName:
    """An entry of the menu; its fields are those of `pages.View`."""

    name: str
    title: str
    ranks: Literal["one", "all", "job"]
    recorded: bool
    always: bool


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server: its version, whether it asks for a login, prefixes of paths and what stands here in their place."""

    version: str
    auth: bool
    features: ServerFeatures
    maps: Sequence[tuple[str, str]]
    pages: Sequence[PageName]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the list; `version` changes with its files. `ranks` is None before it was opened."""

    id: str
    name: str
    path: str
    state: Literal["ready", "growing", "error"]
    error: str
    version: str
    files: int
    bytes: int
    modified: float | None
    ranks: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class ListedRuns:
    """The runs, newest first, and what is wrong with the paths that were named."""

    runs: Sequence[ListedRun]
    wrong: Sequence[str]


@dataclass(frozen=True, slots=True)
class RunStep:
    """A step, ns after the first event; `steady`: neither a warm-up nor an empty last one."""

    step: int
    start: int
    end: int
    steady: bool


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device and what it is called."""

    device: int
    name: str


@dataclass(frozen=True, slots=True)
class DeviceStream:
    """A stream of a device."""

    device: int
    stream: int


@dataclass(frozen=True, slots=True)
class HostThread:
    """A thread of the host, its name and that of its process."""

    thread: int
    name: str
    process: str


@dataclass(frozen=True, slots=True)
class RunInfo(ListedRun):
    """A run, and the trace of one of its ranks.

    Attributes:
        ranks: all of them; rank: the one whose steps, devices and threads these are.
        cycle: of the profiler; cycles: how many this rank recorded.
        damage: that the file lost data, and how much; "" where it did not.
        duration: of what was recorded, ns.
        origin: what the clock of the file showed at the time 0 of the page, ns; base: the same since 1970.
        events: how many were recorded.
        views: those that there is something to see in; first_view: the one that it opens with.
        steps_rest_on: what says where steps begin (`Steps.origin`).
        step_names: annotations that may be steps, the likeliest first.
        notes: about the job and the trace.
    """

    ranks: Sequence[int]
    rank: int
    cycle: int
    cycles: int
    damage: str
    duration: int
    base: str
    origin: str
    events: int
    views: Sequence[str]
    first_view: str
    steps: Sequence[RunStep]
    steps_rest_on: str
    step_names: Sequence[str]
    devices: Sequence[NamedDevice]
    streams: Sequence[DeviceStream]
    threads: Sequence[HostThread]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class ParameterFacts:
    """A parameter of an analysis, and the kind of input in a form."""

    name: str
    type: InputKind
    default: Any
    doc: str
    unit: Unit
    choices: Sequence[str]


@dataclass(frozen=True, slots=True)
class AnalysisFacts:
    """An analysis; `all_ranks`: it asks all ranks, whatever rank the header shows."""

    title: str
    question: str
    doc: str
    parameters: Sequence[ParameterFacts]
    columns: Sequence[Column]
    chart: bool
    all_ranks: bool


@dataclass(frozen=True, slots=True)
class AnalysisGroup:
    """A heading, and the names of the analyses below it."""

    title: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class AnalysisList:
    """All analyses, by name."""

    groups: Sequence[AnalysisGroup]
    analyses: Mapping[str, AnalysisFacts]


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table that a query may name."""

    name: str
    doc: str
    columns: Sequence[Column]


@dataclass(frozen=True, slots=True)
class SqlTables:
    """The tables that SQL sees."""

    tables: Sequence[SqlTable]


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """A window of the arranged rows of a result.

    Attributes:
        analysis: its name; "" for other results.
        params: of the analysis, without the selection.
        columns: of each row.
        total: rows that pass the filters; all: rows of the result.
        ranks: how many ranks all rows are of; None where rows are of none.
        notes: without those about damage, which stand above every view.
        scales: units of the columns of numbers.
        short: how names in the rows are shown, where that is not in full.
        rows: the window.
    """

    analysis: str
    params: Mapping[str, Any]
    columns: Sequence[Column]
    total: int
    all: int
    ranks: int | None
    notes: Sequence[str]
    scales: Mapping[str, Scale]
    short: Mapping[str, str]
    rows: Sequence[Sequence[Any]] = ()
