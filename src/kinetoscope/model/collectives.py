"""Collectives as one rank records them: the calls on the host and the work on devices, of which kind and size.

Calls are `record_param_comms`, which torch records around each collective of NCCL and its kin, and gloo's own ranges.
Their copies on the device, and wrappers such as `nccl:all_reduce`, are the same call again and no rows here.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.model import arguments, arrays
from kinetoscope.model.device import device_work
from kinetoscope.model.kinds import EventKind, WorkKind, is_collective_kernel
from kinetoscope.model.naming import rows_named
from kinetoscope.model.trace import Trace

_CALLS: Final = ("record_param_comms", "gloo:")

_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("all_reduce", r"allreduce|crossdevicereduce"),
    ("all_gather", r"allgather"),
    ("reduce_scatter", r"reducescatter"),
    ("all_to_all", r"alltoall"),
    ("broadcast", r"broadcast|bcast"),
    ("barrier", r"barrier"),
    ("send_recv", r"sendrecv"),  # one kernel of NCCL for both, and for all-to-all
    ("send", r"send"),
    ("recv", r"recv"),
    ("gather", r"gather"),
    ("scatter", r"scatter"),
    ("reduce", r"reduce"),
)
"""Kinds, and what stands in a name of each once all but letters are taken out; the first that fits counts."""

_INPUT: Final = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "all_to_all", "scatter")
_OUTPUT: Final = ("all_gather", "gather")
_EITHER: Final = ("send", "recv", "send_recv")

ELEMENT_BYTES: Final[dict[str, int]] = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""Bytes of an element, by the names that c10 gives its types."""


def kind_named(name: str) -> str | None:
    """The kind of a collective that is called so (`_allgather_base`, `ncclDevKernel_AllReduce_…`); None if unknown."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for kind, pattern in _KINDS if re.search(pattern, letters)), None)


def collective_rows(trace: Trace) -> NDArray[np.int32]:
    """Rows of the calls on the host and of the work on devices: int32, in file order."""
    calls = rows_named(
        trace, lambda name: name.startswith(_CALLS), EventKind.HOST_OP, EventKind.ANNOTATION, holding=_CALLS
    )
    work = trace.of(device_work)
    calls[work.rows[work.of(WorkKind.COMMUNICATION)]] = True
    return np.flatnonzero(calls).astype(np.int32)


def kinds(trace: Trace, rows: NDArray[np.int32]) -> pl.Series:
    """Kind of each of the rows by its argument, else by its name; null if neither tells."""
    recorded = arguments.codes(trace, "collective", rows)
    named = np.where(recorded >= 0, recorded, trace.name[rows])
    found: dict[int, str | None] = {}
    for code in np.unique(named).tolist():
        text = trace.strings.label(code)
        by_argument = bool((recorded == code).any())
        tells = by_argument or text.startswith(_CALLS) or is_collective_kernel(text)
        found[code] = kind_named(text) if tells else None
    return pl.Series([found[code] for code in named.tolist()], dtype=pl.String)


def sizes(trace: Trace, rows: NDArray[np.int32], kind: pl.Series) -> pl.Series:
    """Bytes of each as nccl-tests counts them, null where kind, elements or their type are not recorded.

    All-reduce, broadcast, reduce: the buffer. All-gather, gather: the gathered output. Reduce-scatter, all-to-all,
    scatter: the whole input. Sending and receiving: what is sent.
    """
    given = [_elements(trace, name, rows) for name in ("elements_in", "elements_out")]
    width = arrays.texts(trace.strings, arguments.codes(trace, "element_type", rows)).cast(pl.String)
    width = width.str.strip_prefix("c10::").replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    frame = pl.DataFrame({"kind": kind, "in": given[0], "out": given[1], "width": width})
    elements = (
        pl.when(pl.col("kind").is_in(_INPUT)).then("in").when(pl.col("kind").is_in(_OUTPUT)).then("out")
        .when(pl.col("kind").is_in(_EITHER)).then(pl.max_horizontal("in", "out"))
    )  # fmt: skip
    return frame.select(elements * pl.col("width")).to_series()


def _elements(trace: Trace, name: str, rows: NDArray[np.int32]) -> pl.Series:
    values = arguments.integers(trace, name, rows)
    return arrays.column(values, (values >= 0) & (values < 1 << 58))


def members(trace: Trace, rows: NDArray[np.int32]) -> pl.Series:
    """Ranks of each one's process group, from `distributedInfo` where the argument is cut short: lists of integers."""
    recorded = arrays.lists(trace.strings, arguments.codes(trace, "process_group_ranks", rows))
    names = arrays.texts(trace.strings, arguments.codes(trace, "process_group", rows)).cast(pl.String)
    groups = _groups(trace)
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


def _groups(trace: Trace) -> dict[str, list[int]]:
    """The ranks of each process group by its name, as `distributedInfo` tells them."""
    facts: Any = trace.metadata.get("distributedInfo")
    configured = facts.get("pg_config") if isinstance(facts, dict) else None
    found: dict[str, list[int]] = {}
    for group in configured if isinstance(configured, list) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, list) and all(type(rank) is int and 0 <= rank < 1 << 31 for rank in ranks):
            found[str(group.get("pg_name"))] = ranks
    return found
