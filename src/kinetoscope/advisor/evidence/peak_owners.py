"""Owners of memory at the peak of a rank's memory snapshot, as the rules about them see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.rule import RankView
from kinetoscope.model.memory.allocator import CUDA, device_name
from kinetoscope.model.snapshot.failures import total_memory
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.model.snapshot.replay import histories, level
from kinetoscope.model.snapshot.snapshot import OUT_OF_MEMORY
from kinetoscope.schema import Result
from kinetoscope.views.sentences import Quantity, total

_TIGHT_SHARE: Final = 0.7
"""Share of the device's memory from which on less of it is worth an effort."""


@dataclass(frozen=True, slots=True)
class PeakOwners:
    """The peak of a device.

    Attributes:
        device: as torch names it, `cuda:0`.
        size: bytes in use, as requested.
        ran_out: whether a request failed.
        stacks: rows of `memory_peak` by stack; uses: by use.
        answer: `memory_peak` by use, of all devices.
    """

    device: str
    size: int
    ran_out: bool
    stacks: pl.DataFrame
    uses: pl.DataFrame
    answer: Result

    def quantity(self, use: str = "") -> Quantity:
        """Bytes of one use, or of all, for a sentence."""
        return total(self.answer, "size", device=self.device, **({"use": use} if use else {}))

    def size_of(self, use: str) -> int:
        """Bytes of one use."""
        return int(self.uses.filter(pl.col("use") == use).get_column("size").sum())

    def evidence(self, text: str, group_by: str = "use") -> Evidence:
        """The table that shows it."""
        return Evidence(text, "memory_peak", {"group_by": group_by})


def device_number(name: str) -> int:
    """The number of a device that has a snapshot, by its name."""
    return int(name.rpartition(":")[2])


def peak_owners(rank: RankView) -> Iterator[PeakOwners]:
    """The owners on each device of the snapshot whose memory is nearly full, ran out, or is of unknown size."""
    trace, snapshot = rank.trace, snapshot_of(rank.trace)
    if snapshot is None:
        return
    answer, stacks = rank.ask("memory_peak", group_by="use"), rank.ask("memory_peak", group_by="stack").frame
    for past in histories(trace):
        device, name = past.device, device_name(CUDA, past.device)
        here = answer.frame.filter(device=name, source="snapshot")
        if not len(here):
            continue
        ran_out = bool((past.events.action == OUT_OF_MEMORY).any())
        memory = total_memory(trace, snapshot, device)
        if memory and not ran_out and int(np.max(level(trace, device, "reserved"))) < _TIGHT_SHARE * memory:
            continue
        of_stacks = stacks.filter(device=name, source="snapshot")
        yield PeakOwners(name, int(here.get_column("size").sum()), ran_out, of_stacks, here, answer)
