"""Collectives as one rank records them: the calls on the host and the work on devices, of which kind and size.

Calls are `record_param_comms`, which torch records around each collective of NCCL and its kin, and gloo's own ranges.
Their copies on the device, and wrappers such as `nccl:all_reduce`, are the same call again and no rows here.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.collectives.process_groups import configured, ranks_of
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.element_types import C10_ELEMENTS
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, WorkKind, is_collective_kernel
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

_CALLS: Final = (COMMUNICATION_RECORD, "gloo:")

_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("all_reduce", r"allreduce|crossdevicereduce"),
    ("all_gather", r"allgather"),
    ("reduce_scatter", r"reducescatter"),
    ("all_to_all", r"alltoall|deepep\w*(?:dispatch|combine)"),
    ("broadcast", r"broadcast|bcast"),
    ("barrier", r"barrier"),
    ("send_recv", r"sendrecv"),  # one kernel of NCCL for both, and for all-to-all
    ("send", r"send"),
    ("recv", r"recv"),
    ("gather", r"gather"),
    ("scatter", r"scatter"),
    ("reduce", r"reduce"),
)
"""Kinds, and a pattern for the letters of a name of each; the first that matches counts."""

_INPUT: Final = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "all_to_all", "scatter")
GATHERS: Final = ("all_gather", "gather")
"""Kinds whose size is that of what comes out."""
_POINT_TO_POINT_KINDS: Final = ("send", "recv", "send_recv")

KINDS: Final = (*dict.fromkeys(kind for kind, _ in _KINDS), "other")
"""All kinds; unknown ones are other."""

BINDING: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Kinds that no rank leaves before all have arrived: at one instant all of them are inside."""

POINT_TO_POINT: Final = ("send", "recv", "send_recv")

UNEVEN_KINDS: Final = ("all_to_all", "gather", "scatter")
"""Kinds of which ranks may move different amounts."""

MAX_ELEMENTS: Final = 1 << 58
"""Elements of a collective; greater numbers are wrong."""

BUS_FACTORS: Final[dict[str, tuple[int, int]]] = {
    "all_reduce": (2, 1),
    **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"), (1, 1)),
    **dict.fromkeys(("broadcast", "reduce", "send", "recv", "send_recv"), (1, 0)),
}
"""Bus bandwidth / algorithm bandwidth, as a (n − b) / n with n ranks and these a and b; nccl-tests defines it."""


def kind_named(name: str) -> str | None:
    """The kind of a collective that is called so (`_allgather_base`, `ncclDevKernel_AllReduce_…`); None if unknown."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for kind, pattern in _KINDS if re.search(pattern, letters)), None)


def collective_rows(trace: Trace) -> Int32s:
    """Rows of the calls on the host and of the work on devices: int32, in file order."""
    calls = rows_beginning(trace, _CALLS, *RANGE_KINDS)
    work = device_work(trace)
    calls[work.rows[work.of(WorkKind.COMMUNICATION)]] = True
    return np.flatnonzero(calls).astype(np.int32)


def kinds(trace: Trace, rows: Int32s) -> pl.Series:
    """Kind of each of the rows by its argument, else by its name; null if neither is known."""
    recorded = arguments.codes(trace, "collective", rows)
    named = np.where(recorded >= 0, recorded, trace.name[rows])
    kind_of: dict[int, str | None] = {}
    for code in np.unique(named).tolist():
        text = trace.strings.label(code)
        by_argument = bool((recorded == code).any())
        tells = by_argument or text.startswith(_CALLS) or is_collective_kernel(text)
        kind_of[code] = kind_named(text) if tells else None
    return pl.Series([kind_of[code] for code in named.tolist()], dtype=pl.String)


def sizes(trace: Trace, rows: Int32s, kind: pl.Series) -> pl.Series:
    """Bytes of each as nccl-tests counts them, null where kind, elements or their type are not recorded.

    All-reduce, broadcast, reduce: the buffer. All-gather, gather: the gathered output. Reduce-scatter, all-to-all,
    scatter: the whole input. Sending and receiving: what is sent.
    """
    counts = (arguments.integers(trace, name, rows) for name in ("elements_in", "elements_out"))
    given = [polars_columns.column(each, (each >= 0) & (each < MAX_ELEMENTS)) for each in counts]
    width = polars_columns.texts(trace.strings, arguments.codes(trace, "element_type", rows)).cast(pl.String)
    of_element = {name: element.bytes for name, element in C10_ELEMENTS.items()}
    width = width.str.strip_prefix("c10::").replace_strict(of_element, default=None, return_dtype=pl.Int64)
    frame = pl.DataFrame({"kind": kind, "elements_in": given[0], "elements_out": given[1], "width": width})
    return frame.select(size_of(pl.col("width"))).to_series()


def widths(column: str) -> pl.Expr:
    """Bytes of an element, from a column with what torch calls its type."""
    sizes = {element.name: element.bytes for element in C10_ELEMENTS.values()}
    return pl.col(column).replace_strict(sizes, default=None, return_dtype=pl.Int64)


def size_of(width: pl.Expr) -> pl.Expr:
    """Bytes of a collective from columns kind, elements_in and elements_out, and the bytes of an element; see `sizes`.

    Null where that does not fit into 64 bits.
    """
    kind, given, got = pl.col("kind"), pl.col("elements_in"), pl.col("elements_out")
    elements = (
        pl.when(kind.is_in(_INPUT)).then(given).when(kind.is_in(GATHERS)).then(got)
        .when(kind.is_in(_POINT_TO_POINT_KINDS)).then(pl.max_horizontal(given, got))
    )  # fmt: skip
    return pl.when(elements < MAX_ELEMENTS).then(elements * width)


def members(trace: Trace, rows: Int32s) -> pl.Series:
    """Ranks of each one's process group, from `distributedInfo` where the argument is cut short: lists of integers."""
    recorded = polars_columns.lists(trace.strings, arguments.codes(trace, "process_group_ranks", rows))
    names = polars_columns.texts(trace.strings, arguments.codes(trace, "process_group", rows)).cast(pl.String)
    groups = {each.name: ranks_of(each.ranks) for each in configured(trace) if each.name and each.ranks}
    size = pl.Series(arguments.integers(trace, "group_size", rows), dtype=pl.Int64)
    frame = pl.DataFrame({"ranks": recorded, "name": names, "size": size})
    known = pl.DataFrame(
        {"name": list(groups), "known": list(groups.values())}, schema={"name": pl.String, "known": pl.List(pl.Int64)}
    )
    # `wait` has an empty list and a group of one: not known rather than nobody
    whole = pl.when(pl.col("ranks").list.len() > 0).then("ranks")
    joined = frame.join(known, on="name", how="left", maintain_order="left")
    return joined.select(
        pl.coalesce(whole, pl.when(pl.col("known").list.len() == pl.col("size")).then("known"))
    ).to_series()
