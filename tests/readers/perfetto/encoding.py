"""Recordings of Perfetto, encoded by the names and numbers of its published protos, apart from the reader's code."""

from __future__ import annotations

import struct
from typing import Any

_DIM = {"x": (1, "uint"), "y": (2, "uint"), "z": (3, "uint")}
_NAMED = {"iid": (1, "uint"), "name": (2, "text")}
_ARGUMENT: dict[str, Any] = {
    "name_iid": (1, "uint"),
    "bool_value": (2, "uint"),
    "uint_value": (3, "uint"),
    "int_value": (4, "uint"),
    "double_value": (5, "double"),
    "string_value": (6, "text"),
    "legacy_json_value": (9, "text"),
    "name": (10, "text"),
    "string_value_iid": (17, "uint"),
}
_ARGUMENT |= {"dict_entries": (11, _ARGUMENT), "array_values": (12, _ARGUMENT)}
_SPEC = {"counter_id": (1, "uint"), "name": (2, "text")}
_DESCRIPTOR = {"specs": (1, _SPEC)}
TRACE: dict[str, Any] = {"packet": (1, {
    "timestamp": (8, "uint"), "trusted_packet_sequence_id": (10, "uint"), "sequence_flags": (13, "uint"),
    "timestamp_clock_id": (58, "uint"), "compressed_packets": (50, "text"),
    "clock_snapshot": (6, {
        "clocks": (1, {"clock_id": (1, "uint"), "timestamp": (2, "uint"), "is_incremental": (3, "uint"),
                       "unit_multiplier_ns": (4, "uint")}),
        "primary_trace_clock": (2, "uint")}),
    "trace_packet_defaults": (59, {"timestamp_clock_id": (58, "uint"),
                                   "track_event_defaults": (11, {"track_uuid": (11, "uint")})}),
    "track_descriptor": (60, {
        "uuid": (1, "uint"), "name": (2, "text"), "parent_uuid": (5, "uint"),
        "process": (3, {"pid": (1, "uint"), "process_name": (6, "text")}),
        "thread": (4, {"pid": (1, "uint"), "tid": (2, "uint"), "thread_name": (5, "text")}),
        "counter": (8, {"unit_name": (6, "text"), "unit_multiplier": (4, "uint"), "is_incremental": (5, "uint")})}),
    "interned_data": (12, {
        "event_categories": (1, _NAMED), "event_names": (2, _NAMED), "debug_annotation_names": (3, _NAMED),
        "debug_annotation_string_values": (29, _NAMED), "gpu_specifications": (24, _NAMED),
        "gpu_counter_descriptors": (47, {"iid": (1, "uint"), "counter_descriptor": (2, _DESCRIPTOR),
                                         "gpu_id": (3, "uint")}),
        "compute_kernels": (1000, {"iid": (1, "uint"), "demangled_name": (3, "text")}),
        "compute_arg_names": (1001, _NAMED)}),
    "track_event": (11, {
        "type": (9, "uint"), "track_uuid": (11, "uint"), "name_iid": (10, "uint"), "name": (23, "text"),
        "category_iids": (3, "uint"), "categories": (22, "text"), "counter_value": (30, "uint"),
        "double_counter_value": (44, "double"), "debug_annotations": (4, _ARGUMENT),
        "legacy_event": (6, {"name_iid": (1, "uint"), "phase": (2, "uint"), "duration_us": (3, "uint"),
                             "unscoped_id": (6, "uint"), "bind_to_enclosing": (12, "uint")}),
        "gpu_correlation": (3000, {"render_stage_submission_event_ids": (1, "uint")})}),
    "gpu_counter_event": (52, {"counter_descriptor_iid": (4, "uint"), "gpu_id": (3, "uint"),
                               "counters": (2, {"counter_id": (1, "uint"), "int_value": (2, "uint"),
                                                "double_value": (3, "double")})}),
    "gpu_render_stage_event": (53, {
        "event_id": (1, "uint"), "duration": (2, "uint"), "gpu_id": (11, "uint"), "hw_queue_iid": (13, "uint"),
        "stage_iid": (14, "uint"), "name": (17, "text"), "name_iid": (20, "uint"), "kernel_iid": (19, "uint"),
        "context": (5, "uint"), "extra_data": (6, {"name": (1, "text"), "value": (2, "text")}),
        "launch": (21, {"grid_size": (1, _DIM), "workgroup_size": (2, _DIM),
                        "args": (3, {"name_iid": (1, "uint"), "uint_value": (4, "uint")})})}),
})}  # fmt: skip


def varint(value: int) -> bytes:
    value %= 1 << 64
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def message(schema: dict[str, Any], values: dict[str, Any]) -> bytes:
    """A message, of a schema of names; lists are repeated fields."""
    written = []
    for name, value in values.items():
        number, kind = schema[name]
        for each in value if isinstance(value, list) else [value]:
            if kind == "uint":
                written.append(varint(number << 3) + varint(int(each)))
            elif kind == "double":
                written.append(varint(number << 3 | 1) + struct.pack("<d", each))
            else:
                content = message(kind, each) if isinstance(kind, dict) else each
                content = content.encode() if isinstance(content, str) else content
                written.append(varint(number << 3 | 2) + varint(len(content)) + content)
    return b"".join(written)


def recording(*packets: dict[str, Any]) -> bytes:
    """A recording of these packets."""
    return message(TRACE, {"packet": [*packets]})


def begin(time: int, name: str, track: int = 2, category: str = "", **arguments: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"type": 1, "track_uuid": track, "name": name}
    event |= {"categories": category} if category else {}
    event["debug_annotations"] = [argument(key, value) for key, value in arguments.items()]
    return {"timestamp": time, "trusted_packet_sequence_id": 1, "track_event": event}


def end(time: int, track: int = 2) -> dict[str, Any]:
    return {"timestamp": time, "trusted_packet_sequence_id": 1, "track_event": {"type": 2, "track_uuid": track}}


def argument(key: str, value: Any) -> dict[str, Any]:
    named = {"name": key.replace("_", " ")} if key else {}
    if isinstance(value, bool):
        return named | {"bool_value": value}
    if isinstance(value, int):
        return named | {"int_value": value}
    if isinstance(value, float):
        return named | {"double_value": value}
    if isinstance(value, list):
        return named | {"array_values": [argument("", each) for each in value]}
    if isinstance(value, dict):
        return named | {"dict_entries": [argument(key, each) for key, each in value.items()]}
    return named | {"string_value": value}


THREAD = [
    {"track_descriptor": {"uuid": 1, "process": {"pid": 900, "process_name": "python"}}},
    {"track_descriptor": {"uuid": 2, "parent_uuid": 1, "thread": {"pid": 900, "tid": 901, "thread_name": "main"}}},
]
