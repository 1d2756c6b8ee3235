"""Dumps of the Flight Recorder: the forms in which the versions of torch write them, as pickles and as JSON."""

from __future__ import annotations

import json
import pickle
from typing import Any, Final, Literal

from tests.snapshots.writing import torch_pickle

Dump = dict[str, Any]

SINCE: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(("process_group", "collective_seq_id", "p2p_seq_id", "is_p2p"), (2, 1)),
    **dict.fromkeys(("input_dtypes", "output_dtypes", "timeout_ms"), (2, 2)),
    **dict.fromkeys(("thread_id", "thread_name"), (2, 9)),
}
"""When a key of entries was first written, by the version of the format, as near as the tests need it."""

START: Final = 1_795_000_000_000_000_000

_DISTRIBUTED: Final = "/usr/lib/python3.11/site-packages/torch/distributed"
FRAMES: Final = (
    {"name": "all_reduce", "filename": f"{_DISTRIBUTED}/distributed_c10d.py", "line": 3245},
    {"name": "wrapper", "filename": f"{_DISTRIBUTED}/c10d_logger.py", "line": 83},
    {"name": "step", "filename": "/job/train.py", "line": 38},
    {"name": "<module>", "filename": "/job/train.py", "line": 90},
)  # fmt: skip


def entry(record: int, **other: Any) -> dict[str, Any]:
    """An entry as NCCL's recorder writes it, done; `other` replaces or adds keys."""
    created = START + record * 1_000_000
    seq = other.get("collective_seq_id", record + 1)
    return {
        "frames": [*FRAMES],
        "record_id": record,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": created,
        "duration_ms": 0.25,
        "input_sizes": [[64, 1024]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[64, 1024]],
        "output_dtypes": ["BFloat16"],
        "state": "completed",
        "time_discovered_started_ns": created + 300_000,
        "time_discovered_completed_ns": created + 800_000,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "thread_id": "139974584159104",
        "thread_name": "pt_main_thread",
    } | other


def dump(entries: list[dict[str, Any]], version: str = "2.10", world: int = 2) -> Dump:
    """A dump with these entries, of a job with as many ranks, with the keys that a version has."""
    last = max((each["collective_seq_id"] for each in entries if each["state"] == "completed"), default=-1)
    number = tuple(map(int, version.split(".")))
    kept = [{key: each[key] for key in each if number >= SINCE.get(key, (0, 0))} for each in entries]
    ranks = [*range(world)]
    if number < (2, 0):  # torch 2.3
        for new, old in zip(kept, entries, strict=True):
            new["seq_id"] = old["collective_seq_id"]
        return {"entries": kept, "version": version, "pg_config": {0: ranks}}
    return {
        "version": version,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(ranks)}},
        "comm_lib_version" if number >= (2, 9) else "nccl_version": "2.27.5",
        "pg_status": {
            "0": {
                "last_enqueued_collective": len(entries),
                "last_started_collective": last,
                "last_completed_collective": last,
            }
        },
        "entries": kept,
    }


def content(written: Dump, form: Literal["pickle", "c++", "json"] = "c++", protocol: int = 4) -> bytes:
    """The bytes of a file; JSON has no frames, 0 for no time, and texts in the state of groups."""
    if form == "c++":
        return torch_pickle(written)
    return json.dumps(as_json(written)).encode() if form == "json" else pickle.dumps(written, protocol)


def as_json(written: Dump) -> Dump:
    """A dump as `_dump_fr_trace_json` has it."""
    times = ("time_discovered_started_ns", "time_discovered_completed_ns")
    entries = [
        {key: (value or 0) if key in times else value for key, value in each.items() if key != "frames"}
        for each in written["entries"]
    ]
    status = {
        name: {key: str(value) for key, value in each.items()} for name, each in written.get("pg_status", {}).items()
    }
    return dict(sorted({**written, "entries": entries, "pg_status": status}.items()))
