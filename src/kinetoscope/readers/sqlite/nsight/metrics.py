"""Metrics of GPUs that were sampled beside the work (`--gpu-metrics-devices`), as counters of the process's devices."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.readers.sqlite.nsight.tables import DEVICE_NUMBERS, METRIC_NAMES, METRICS, Export

_DEVICE_BITS: Final = 0xFF
"""Bits of a metric's type that are the number of the device on the machine."""

_GIGABYTES: Final = "[GB/s]"
_BYTES_FROM: Final = 1e6
"""Above it, values of GB/s are bytes/s: Nsight stores whole numbers, and no link moves a petabyte a second."""


def device_numbers(export: Export, process: int | None) -> dict[int, int]:
    """The number that a process has for each device, by that on the machine; empty where the file does not tell."""
    rows = export.content.integers(DEVICE_NUMBERS, ("gpuId", "cudaId", "pid"))
    mine = (rows["pid"] == process) if process is not None else np.ones(len(rows["pid"]), np.bool_)
    pairs = zip(rows["gpuId"][mine].tolist(), rows["cudaId"][mine].tolist(), strict=True)
    return {one: other for one, other in pairs if one >= 0 and other >= 0}


def add_metrics(export: Export, process: int | None, devices: Int64s, built: TraceBuilder) -> None:
    """Metrics of the devices that a process uses, given to a builder.

    Args:
        export: the tables.
        process: its number; None for all.
        devices: its devices, as it numbers them.
        built: the builder: metrics with the same times become one event each time.
    """
    rows = export.content.integers(METRICS, ("timestamp", "typeId", "metricId"))
    value = export.content.numbers(METRICS, "value")
    known = (rows["timestamp"] >= 0) & np.isfinite(value)
    numbers, names = device_numbers(export, process), _names(export)
    kind = np.where(known, rows["typeId"], -1)
    for of_type in np.unique(kind[kind >= 0]).tolist():
        on_machine = of_type & _DEVICE_BITS
        device = numbers.get(on_machine, -1) if numbers else on_machine
        if device in devices:
            own = np.flatnonzero(kind == of_type)
            metrics = rows["metricId"][own]
            order = np.lexsort((rows["timestamp"][own], metrics))
            bounds = np.flatnonzero(np.diff(metrics[order])) + 1
            titled = {
                names.get((of_type, int(metrics[places[0]])), f"metric {metrics[places[0]]}"): own[places]
                for places in np.split(order, bounds)
            }
            _add_device(device, {name: (rows["timestamp"][at], value[at]) for name, at in titled.items()}, built)


def _add_device(device: int, metrics: dict[str, tuple[Int64s, Floats]], built: TraceBuilder) -> None:
    together: defaultdict[bytes, list[str]] = defaultdict(list)
    for name, (time, _) in metrics.items():
        together[time.tobytes()].append(name)
    for names in together.values():
        time = metrics[names[0]][0]
        values = {name: _in_unit(name, metrics[name][1]) for name in names}
        built.add_as_written("C", "", "", time, time, process=f"GPU {device} Counters", arguments=values)


def _in_unit(name: str, value: Floats) -> Floats:
    is_bytes = name.endswith(_GIGABYTES) and value.max(initial=0) > _BYTES_FROM
    return value / 1e9 if is_bytes else value


def _names(export: Export) -> dict[tuple[int, int], str]:
    """Names of metrics by type and number."""
    rows = export.content.integers(METRIC_NAMES, ("typeId", "metricId"))
    keys = zip(rows["typeId"].tolist(), rows["metricId"].tolist(), strict=True)
    named = zip(keys, export.content.texts(METRIC_NAMES, "metricName").listed(), strict=True)
    return {key: name for key, name in named if name}
