"""Files of snapshots: the forms in which the versions of torch write them, from Python, from C++, and as JSON."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from tests.snapshots.process import Snapshot

Version = tuple[int, int]

NEWEST: Final[Version] = (2, 15)

EVENT_KEYS: Final[dict[str, Version]] = {
    "time_us": (2, 2),
    "compile_context": (2, 8),
    "user_metadata": (2, 10),
    "pool_id": (2, 11),
    "forward_frames": (2, 11),
    "internal_metadata": (2, 15),
}
"""When torch began to write a key of events; those not named here are in every version."""

SNAPSHOT_KEYS: Final[dict[str, Version]] = {
    "allocator_settings": (2, 3),
    "external_annotations": (2, 6),
    "host_segments": (2, 14),
    "host_traces": (2, 14),
}
OLD_BLOCKS: Final[Version] = (2, 0)


def written_by(snapshot: Snapshot, torch: Version = NEWEST, writer: Literal["python", "c++"] = "python") -> Snapshot:
    """A snapshot with the keys that a version of torch writes; frames stay the same objects."""
    absent = {key for key, since in EVENT_KEYS.items() if torch < since}
    if writer == "c++":
        absent |= {"pool_id", "forward_frames"}
    nothing: list[object] = []

    def event(full: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in full.items() if key not in absent}
        if torch < (2, 5):
            kept.setdefault("frames", nothing)
        return kept

    def trace(full: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [event(each) for each in full if torch >= (2, 14) or each["action"] != "annotate"]

    answer = {key: value for key, value in snapshot.items() if torch >= SNAPSHOT_KEYS.get(key, (0, 0))}
    answer["device_traces"] = [trace(each) for each in answer["device_traces"]]
    if "host_traces" in answer:
        answer["host_traces"] = trace(answer["host_traces"])
    if torch <= OLD_BLOCKS:
        answer["segments"] = [_old_segment(segment) for segment in answer["segments"]]
    return answer


def _old_segment(segment: Mapping[str, Any]) -> dict[str, Any]:
    """As torch 2.0 wrote it: `history` in place of what was requested, no pools, no addresses of blocks."""
    absent = ("requested_size", "segment_pool_id", "is_expandable", "frames")
    answer = {key: value for key, value in segment.items() if key not in absent}
    answer["blocks"] = [
        {"size": block["size"], "state": block["state"]}
        | (
            {"history": [{"addr": block["address"], "real_size": block["requested_size"], "frames": block["frames"]}]}
            if block["state"] != "inactive"
            else {}
        )
        for block in segment["blocks"]
    ]
    return answer


def content(snapshot: Snapshot, form: Literal["pickle", "c++", "json"] = "pickle", protocol: int = 4) -> bytes:
    """The bytes of a file. `c++` is what `_memory_snapshot_pickled` writes: protocol 2 by torch's own pickler."""
    if form == "json":
        return json.dumps(snapshot).encode()
    return torch_pickle(snapshot) if form == "c++" else pickle.dumps(snapshot, protocol)


def write(path: Path, snapshot: Snapshot, form: Literal["pickle", "c++", "json"] = "pickle", protocol: int = 4) -> Path:
    """Writes a file, compressed if its name ends in `.gz`."""
    data = content(snapshot, form, protocol)
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


def torch_pickle(value: object) -> bytes:
    """What torch::jit::Pickler writes: strings memoized by value, lists and dicts that are shared by identity."""
    pickler = TorchPickler()
    pickler.count(value)
    pickler.push(value)
    return bytes(pickler.out + b".")


class TorchPickler:
    """A part of torch::jit::Pickler: protocol 2, without tags of types."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[object, int] = {}
        self.shared = Counter[int]()

    def count(self, value: object) -> None:
        """Counts how often lists and dicts are referred to."""
        if isinstance(value, dict | list):
            self.shared[id(value)] += 1
            if self.shared[id(value)] > 1:
                return
        if isinstance(value, dict | list | tuple):
            for each in value.values() if isinstance(value, dict) else value:
                self.count(each)

    def push(self, value: Any) -> None:
        if isinstance(value, str):
            if not self._known(value):
                text = value.encode()
                self.out += struct.pack("<BI", ord("X"), len(text)) + text
                self._put(value)
        elif isinstance(value, tuple):
            for item in value:
                self.push(item)
            self.out += b")" if not value else bytes([0x84 + len(value)])
        elif isinstance(value, list | dict):
            if not self._known(id(value)):
                self._container(value)
        else:
            self.out += _number(value)

    def _container(self, value: list[Any] | dict[str, Any]) -> None:
        of_list = isinstance(value, list)
        self.out += b"](" if of_list else b"}("
        for item in value if isinstance(value, list) else (part for pair in value.items() for part in pair):
            self.push(item)
        self.out += b"e" if of_list else b"u"
        if self.shared[id(value)] > 1:
            self._put(id(value))

    def _known(self, key: object) -> bool:
        at = self.memo.get(key)
        if at is not None:
            self.out += struct.pack("<BB", ord("h"), at) if at < 256 else struct.pack("<BI", ord("j"), at)
        return at is not None

    def _put(self, key: object) -> None:
        at = self.memo[key] = len(self.memo)
        self.out += struct.pack("<BB", ord("q"), at) if at < 256 else struct.pack("<BI", ord("r"), at)


def _number(value: bool | int | float | None) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, float):
        return struct.pack(">Bd", ord("G"), value)
    if 0 <= value < 256:
        return struct.pack("<BB", ord("K"), value)
    if 0 <= value < 65_536:
        return struct.pack("<BH", ord("M"), value)
    if -(1 << 31) <= value < 1 << 31:
        return struct.pack("<Bi", ord("J"), value)
    return struct.pack("<BBq", 0x8A, 8, value)
