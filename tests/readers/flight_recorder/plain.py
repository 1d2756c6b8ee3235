"""A plain twin of the reader: what a dump says, entry by entry, from what Python makes of a file that we wrote."""

from __future__ import annotations

import math
from typing import Any

from kinetoscope.model.flight_recorder.dump import NONE, STATES, FlightDump

Row = dict[str, Any]


def rows_of(dump: FlightDump) -> list[Row]:
    """The entries that the columns hold."""
    e, text = dump.entries, dump.strings.label
    rows = []
    for k in range(len(e)):
        group = dump.groups[e.group[k]]
        row: Row = {
            "group": (group.backend, group.name, group.desc),
            "ranks": group.ranks,
            "name": text(int(e.name[k])),
            "state": STATES[e.state[k]],
            "retired": bool(e.retired[k]),
            "is_p2p": bool(e.is_p2p[k]),
            "frames": dump.stacks[e.stack[k]] if e.stack[k] != NONE else (),
        }
        for key in ("record", "seq", "p2p_seq", "op", "created", "started", "completed", "duration", "timeout"):
            row[key] = int(getattr(e, key)[k])
        for key in ("input_sizes", "output_sizes", "input_types", "output_types", "thread"):
            row[key] = text(int(getattr(e, key)[k]))
        for key in ("input_elements", "output_elements"):
            row[key] = int(getattr(e, key)[k])
        rows.append(row)
    return rows


def rows_written(written: dict[str, Any]) -> list[Row]:
    """The same from the dump as Python has it, of any version."""
    return [_row(each, written.get("pg_config", {})) for each in written["entries"]]


def _row(entry: dict[str, Any], config: dict[Any, Any]) -> Row:
    backend, _, name = entry["profiling_name"].rpartition(":")
    group, desc = entry.get("process_group", (str(entry["pg_id"]), ""))
    facts = config.get(group, config.get(entry["pg_id"], {}))
    ranks = facts if isinstance(facts, list) else _numbers(facts.get("ranks", "[]"))
    row: Row = {
        "group": (backend, group, desc),
        "ranks": tuple(ranks),
        "name": name,
        "state": entry["state"],
        "retired": entry["retired"],
        "is_p2p": entry.get("is_p2p", name.startswith(("send", "recv"))),
        "frames": tuple(f"{f['name']} {f['filename']}:{f['line']}" for f in entry.get("frames", ())),
        "record": entry["record_id"],
        "seq": entry.get("collective_seq_id", entry.get("seq_id")),
        "p2p_seq": entry.get("p2p_seq_id", NONE),
        "op": entry["op_id"],
        "created": entry["time_created_ns"],
        "started": entry["time_discovered_started_ns"] or NONE,
        "completed": entry["time_discovered_completed_ns"] or NONE,
        "duration": round(entry["duration_ms"] * 1e6) if "duration_ms" in entry else NONE,
        "timeout": entry["timeout_ms"] * 1_000_000 if "timeout_ms" in entry else NONE,
        "thread": entry.get("thread_name", ""),
    }
    for side in ("input", "output"):
        sizes = entry[f"{side}_sizes"]
        row[f"{side}_sizes"] = ", ".join(str([*each]) for each in sizes)
        row[f"{side}_elements"] = sum(math.prod(each) for each in sizes)
        row[f"{side}_types"] = ", ".join(dict.fromkeys(entry.get(f"{side}_dtypes", ())))
    return row


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.strip("[]").split(",") if part.strip()]
