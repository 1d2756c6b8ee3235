"""Which devices each rank used, and on which machine."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.hardware import Device, device_of, ordinal_of
from kinetoscope.model.device.names import device_name
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("node", pl.String, "Name of the machine, as the file states it, else as its name does."),
    Column("process", pl.Int64, "Number of the process on that machine."),
    Column("device", pl.Int64, "Device that the rank used, as its work is numbered; null if it used none."),
    Column("ordinal", pl.Int64, "Its number within the process, as torch counts (`cuda:0`); null if not known."),
    Column("name", pl.String, "The vendor's name of the device; without one, the product that its facts prove."),
    Column("memory", pl.Int64, "Memory of the device.", "bytes"),
    Column("capability", pl.String, "Compute capability, major and minor."),
    Column("multiprocessors", pl.Int64, "Streaming multiprocessors, or compute units."),
)


def devices(trace: Trace, select: Selection) -> Partial:
    """On which machine did each rank run, as which process, and on which devices?

    Method. A row for each device on which a rank ran any work, described as the file lists it. ROCm numbers work as
    the machine counts its agents (2, where two processors come first) and lists devices as the process counts them: the
    description is then that of the only device, or of devices that are all alike. The machine is the
    file's `host_name`; older files lack it, and the name of the file is taken if torch's `tensorboard_trace_handler`
    made it (`node7_1234.….pt.trace.json`). The process is that of the training loop's thread.

    How to read it. Ranks that share a device, machines with fewer ranks than others, and devices of different names or
    capabilities in one job are worth a question: the slowest of them sets the pace.

    Limits. Devices that a rank sees and does not use are in `trace_info`. ROCm states no compute capability, and files
    cut by other tools may state no devices: then these columns are null.
    """
    view = scope(trace, select)
    work = device_work(trace)
    used = np.unique(work.device[view.device_work_mask]).tolist()
    known = {number: device_of(trace, number) for number in used}
    node, process = _place(trace)
    rows = [(node, process, *_described(trace, number, known.get(number))) for number in used or [-1]]
    notes: list[Note] = []
    if not len(work):
        notes.append(no_device_work(trace, "the columns of the device are empty"))
    elif any(device is None for device in known.values()):
        notes.append(
            Note(
                "DEVICES_NOT_DESCRIBED",
                "The file does not describe the devices that were used: what is not stated is null.",
            )
        )
    return Partial(RESULT.per_rank.frame(rows), tuple(notes))


ANALYSIS = Analysis("Devices", devices, RESULT, across_ranks=True, of_device_work=False)

_WORKER: Final = re.compile(r"(?!.*(?:step|rank|worker|epoch))(.+)_(\d{1,18})", re.IGNORECASE)
"""How torch's handler names a worker: the machine and the process; `worker0_step_12` is somebody's own name."""

_NAME: Final = re.compile(r"(.*?)(?:\.\d+)?\.pt\.trace\.json(?:\.gz)?")
"""What stands before the time at which a file was written."""


def _described(trace: Trace, number: int, device: Device | None) -> tuple[int | str | None, ...]:
    shown = number if number >= 0 else None
    if device is None:
        return shown, None, None, None, None, None
    capability = None if device.capability is None else "{}.{}".format(*device.capability)
    return (
        shown,
        ordinal_of(trace, number),
        device_name(device) or None,
        _whole(device.memory),
        capability,
        _whole(device.multiprocessors),
    )


def _whole(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < 1 << 62 else None


def _place(trace: Trace) -> tuple[str | None, int | None]:
    """Machine and process of a rank, null where nothing tells."""
    name = _NAME.fullmatch(trace.source.name)
    worker = _WORKER.fullmatch(name.group(1)) if name else None
    stated = trace.metadata.get("host_name")
    node = stated if isinstance(stated, str) and stated else worker.group(1) if worker else None
    track = main_thread(trace)
    pids = trace.tracks.integer_pids()
    pid = int(pids[track]) if 0 <= track < len(pids) else -1
    if worker and not (isinstance(stated, str) and stated):
        return _shown(node), int(worker.group(2))
    return _shown(node), pid if pid >= 0 else None


def _shown(text: str | None) -> str | None:
    """Text as frames can hold it: lone surrogates replaced."""
    return None if text is None else text.encode("utf-8", "replace").decode()
