"""Trees of Triton's Proton, as hatchet JSON and as msgpack: frames with calls, time, operations and bytes of kernels.

A tree has sums: how often a kernel ran in a frame and how long in all, not when, nor how long each time. So the calls
of a kernel get equal parts of its time, one after the other, which only keeps sums and the order of frames; the trace
is marked as one without timeline (`recording.has_timeline`), and nothing that asks for times is answered of it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from kinetoscope.errors import BrokenTraceError, LimitError, MissingExtraError
from kinetoscope.model.trace.build import Coded, TraceBuilder
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import NO_TIMELINE
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import mapping
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.left_out import kinds_not_read, records_left_out
from kinetoscope.readers.reader import Reader

MAX_CALLS: Final = 1 << 23
"""Calls of kernels that a file may count in all: each is an event."""

_MAX_TIME: Final = 1 << 60
_DIGITS: Final = 20
_MAX_COST: Final = 1e30
_MAX_CHILDREN: Final = 1 << 16
"""Frames in one frame of msgpack, whose lists say their length before they are there."""

_PACKED: Final = re.compile(rb"\x92[\x81-\x83]\xa5frame\x82\xa4name\xa4ROOT")
_TEXT: Final = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')
_ROOT: Final = re.compile(rb'"frame"\s*:\s*\{\s*"name"\s*:\s*"ROOT"')
_ARCH: Final = re.compile(r"([0-9]{1,3})([0-9])")
_FLOPS: Final = re.compile(r"flops(?:8|16|32|64)?")
_PRECISIONS: Final = {"flops8": "fp8", "flops16": "fp16", "flops32": "fp32", "flops64": "fp64"}
"""Precisions of products by the width that is counted: BF16 has the peak of FP16, INT8 mostly that of FP8."""

_END: Final = object()
"""The end of a frame, in a list of nodes to be visited."""

_COUNT, _TIME, _BYTES = "count", "time (ns)", "bytes"
_READ: Final = (_COUNT, _TIME, _BYTES, "device_id", "device_type")


class _Kernel(NamedTuple):
    """The calls of a kernel in a frame: their number and time (ns) in all; operations and bytes of each, −1 unknown."""

    name: str
    frame: int
    device: int
    calls: int
    start: int
    time: int
    flop: float
    gigabytes: float
    precision: str


@dataclass(slots=True)
class _Frame:
    """A frame: its name, the number of the one around it (0: none), and the time from its first to its last kernel."""

    name: str
    parent: int
    start: int
    end: int


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of a tree: an operator for each frame, a kernel for each call.

    Raises:
        NotFoundError: the file cannot be read.
        LimitError: it cannot be read whole, or counts more calls than `MAX_CALLS`.
        MissingExtraError: it is msgpack, and what reads that is not installed.
        BrokenTraceError: it is cut or damaged.
    """
    with opened(source, progress=progress) as blocks:
        text = b"".join(blocks)
    said = _parsed(source, text)
    tree = _Tree(said[0])
    if tree.calls > MAX_CALLS:
        raise LimitError(f"{source.url}: Proton counted {tree.calls:,} calls of kernels; {MAX_CALLS:,} can be read")
    built = TraceBuilder()
    _add_frames(built, tree.frames)
    _add_kernels(built, tree.kernels)
    built.name_thread("frames", process="Proton", thread="frames")
    devices = [*_devices(mapping(said[1]))] if len(said) > 1 else []
    return built.build(
        source,
        metadata={NO_TIMELINE: "Triton Proton", "deviceProperties": devices},
        text_bytes=len(text),
        notes=tuple(_notes(tree)),
    )


def _parsed(source: Source, text: bytes) -> list[Any]:
    """The list that a file is: the root of the tree, and the devices."""
    try:
        said = _unpacked(text) if _PACKED.match(text) else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenTraceError(
            f"{source.url}: a tree of Proton that is cut or damaged; copy it again, or record again"
        ) from error
    if not (isinstance(said, list) and said and isinstance(said[0], dict)):
        raise BrokenTraceError(f"{source.url}: a tree of Proton without a root")
    return said


def _unpacked(text: bytes) -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise MissingExtraError("msgpack of Triton's Proton", "proton") from error
    return msgpack.unpackb(text, max_array_len=_MAX_CHILDREN, max_map_len=_MAX_CHILDREN)


class _Tree:
    """The frames and kernels of a tree in their order, and what of it is not read."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.frames: list[_Frame] = []
        self.kernels: list[_Kernel] = []
        self.calls = self.left_out = 0
        self.not_read: dict[str, int] = {}
        self._now = 0
        self._walk(root)

    def _walk(self, root: Mapping[str, Any]) -> None:
        """Visit all frames without recursion: children of a frame before what follows it, then its end."""
        waiting: list[tuple[Any, int]] = [(each, 0) for each in reversed(_children(root))]
        while waiting:
            node, around = waiting.pop()
            if node is _END:
                self.frames[around - 1].end = self._now
                continue
            here = self._visit(node, around)
            if here:
                waiting.append((_END, here))
                waiting += [(each, here) for each in reversed(_children(node))]

    def _visit(self, node: Any, around: int) -> int:
        """Add what a node of the tree is: the number of the frame, 0 for a kernel alone."""
        name = mapping(mapping(node).get("frame")).get("name")
        if not isinstance(name, str):
            self.left_out += 1
            return 0
        metrics = mapping(node.get("metrics"))
        is_kernel = _TIME in metrics
        for each in metrics:
            if not is_kernel or not (each in _READ or _FLOPS.fullmatch(each)):
                self.not_read[each] = self.not_read.get(each, 0) + 1
        if is_kernel:
            self._add_kernel(name, around, metrics)
            if not _children(node):
                return 0
        self.frames.append(_Frame(name, around, self._now, self._now))
        return len(self.frames)

    def _add_kernel(self, name: str, frame: int, metrics: Mapping[str, Any]) -> None:
        calls, time = _whole(metrics.get(_COUNT, 1)), _whole(metrics[_TIME])
        device = _whole(metrics.get("device_id", 0))
        if not calls or time is None or device is None or self._now + time > _MAX_TIME:
            self.left_out += 1
            return
        self.kernels.append(_Kernel(name, frame, device, calls, self._now, time, *_costs(metrics, calls)))
        self.calls += calls
        self._now += time


def _costs(metrics: Mapping[str, Any], calls: int) -> tuple[float, float, str]:
    """Operations and gigabytes of a call, −1 unknown; and what is computed in, "" unknown."""
    flops = {key: amount for key, value in metrics.items() if _FLOPS.fullmatch(key) and (amount := _amount(value))}
    flop, moved = sum(flops.values()), _amount(metrics.get(_BYTES))
    precision = _PRECISIONS.get(next(iter(flops)), "") if len(flops) == 1 else ""
    return flop / calls if flops else -1.0, -1.0 if moved is None else moved / calls / 1e9, precision


def _children(node: Mapping[str, Any]) -> list[Any]:
    children = node.get("children")
    return children if isinstance(children, list) else []


def _whole(value: object) -> int | None:
    """A number from 0 on, or the text of one; None for what cannot be."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < _DIGITS else None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= _MAX_TIME else None  # type: ignore[operator, return-value]


def _amount(value: object) -> float | None:
    """Operations or bytes; None for what cannot be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MAX_COST else None  # type: ignore[operator, arg-type]


def _add_frames(built: TraceBuilder, frames: list[_Frame]) -> None:
    if frames:
        built.add(
            EventKind.HOST_OP,
            [each.name for each in frames],
            [each.start for each in frames],
            [each.end for each in frames],
            process="Proton",
            thread="frames",
            external_id=np.arange(1, len(frames) + 1),
        )


def _add_kernels(built: TraceBuilder, kernels: list[_Kernel]) -> None:
    by_costs: defaultdict[tuple[bool, bool], list[_Kernel]] = defaultdict(list)
    for each in kernels:
        by_costs[each.flop >= 0, each.gigabytes >= 0].append(each)
    for (has_flop, has_bytes), some in by_costs.items():
        _add_calls(built, some, has_flop=has_flop, has_bytes=has_bytes)


def _add_calls(built: TraceBuilder, kernels: list[_Kernel], *, has_flop: bool, has_bytes: bool) -> None:
    """A kernel for each call, whose durations add up to the time that was recorded of all."""
    names, frame, device, calls, begin, time, flop, gigabytes, precision = map(list, zip(*kernels, strict=True))
    which = np.repeat(np.arange(len(kernels)), calls)
    number = np.arange(len(which)) - np.repeat(np.cumsum(calls) - calls, calls)
    each_time, more = np.divmod(np.array(time, np.int64), np.array(calls, np.int64))
    start = np.array(begin, np.int64)[which] + number * each_time[which] + np.minimum(number, more[which])
    costs: dict[str, Any] = {}
    if has_flop:
        costs |= {"kernel_flop": np.array(flop)[which], "kernel_precision": _texts(precision).at(which)}
    if has_bytes:
        costs["kernel_gigabytes"] = np.array(gigabytes)[which]
    built.add(
        EventKind.KERNEL,
        _texts(names).at(which),
        start,
        start + each_time[which] + (number < more[which]),
        process=np.array(device)[which],
        device=np.array(device)[which],
        external_id=np.array(frame)[which],
        **costs,
    )


def _texts(texts: list[str]) -> Coded:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return Coded(np.array([places[text] for text in texts]), [*places])


def _devices(said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The devices, as Kineto lists them, as far as Proton tells: it has no names."""
    for vendor, devices in said.items():
        for number, facts in mapping(devices).items():
            units = _whole(mapping(facts).get("num_sms"))
            listed = {"id": _whole(number) or 0, "name": "", **_capability(vendor, mapping(facts).get("arch"))}
            yield listed if units is None else {**listed, "numSms": units}


def _capability(vendor: str, arch: object) -> dict[str, int]:
    match = _ARCH.fullmatch(arch) if vendor == "CUDA" and isinstance(arch, str) else None
    return {"computeMajor": int(match[1]), "computeMinor": int(match[2])} if match else {}


def _notes(tree: _Tree) -> Iterator[Note]:
    yield Note(
        "OF_PROTON",
        "Proton recorded sums in a tree of frames: how often kernels ran and how long in all, not when, nor how long"
        " each call took.",
    )
    yield from kinds_not_read("Numbers of Proton's frames", tree.not_read)
    yield from records_left_out(tree.left_out)


def _recognised(_: str, head: bytes) -> bool:
    if _PACKED.match(head):
        return True
    return _TEXT.match(head) is not None and (_ROOT.search(head) is not None or b'"metrics"' in head)


_SUFFIXES: Final = (".hatchet", ".hatchet_msgpack")
READER: Final = Reader(
    "proton", load, _recognised, richness=1, suffixes=(*_SUFFIXES, *(f"{each}.gz" for each in _SUFFIXES))
)
