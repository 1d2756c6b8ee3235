"""Kinds of files that belong to the traces of a run: beside them, or where the user says. One line each.

The name of a kind is the option of the command line, the keyword of `read`, the key of `Source.companions`, and what
`Trace.companions` takes. Imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

NO_FILES: Final = "off"
"""The word in place of a path that leaves all of a kind out."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A kind of files.

    Attributes:
        name: of the kind.
        help: what the command line says of the option.
        module: below `kinetoscope.readers.job`; its `FILES`, a `CompanionFiles`, says which files they are.
    """

    name: str
    help: str
    module: str


COMPANIONS: Final = [
    Companion(
        "capture",
        "traces recorded while CUDA graphs were captured, to join with the replays; by default those in"
        " capture_traces beside the traces",
        "capture_traces",
    ),
    Companion(
        "compile",
        "what torch.compile wrote: a folder of TORCH_TRACE, Inductor's cache, torch_compile_debug; by default"
        " `compile` beside the traces",
        "compile_files",
    ),
    Companion(
        "snapshot",
        "memory snapshots (torch.cuda.memory._dump_snapshot); by default those in `snapshots` beside the"
        " traces, and in the folder that is opened",
        "snapshots",
    ),
    Companion(
        "flight_recorder",
        "dumps of torch's Flight Recorder (TORCH_FR_DUMP_TEMP_FILE), the rank in their names; by default those in"
        " `flight_recorder` beside the traces, and in the folder that is opened",
        "flight_recorder",
    ),
    Companion(
        "hang",
        "what hosts left when the job hung: stacks by faulthandler, notes of `record --hang`, logs; by default those in"
        " `hang` beside the traces",
        "host_files",
    ),
    Companion(
        "device_log",
        "logs of devices as CSV, such as nvidia-smi writes, with the times that `counters` joins; by default those in"
        " `device_log` beside the traces",
        "device_logs",
    ),
    Companion(
        "history",
        "the history of the whole run, which `record --history` writes; by default that in `history` beside the traces",
        "histories",
    ),
]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class CompanionPaths(TypedDict, total=False):
    """The keywords of `read` for them: files and folders, "off" for none, None for those that are found."""

    capture: Paths | None
    compile: Paths | None
    snapshot: Paths | None
    flight_recorder: Paths | None
    hang: Paths | None
    device_log: Paths | None
    history: Paths | None
