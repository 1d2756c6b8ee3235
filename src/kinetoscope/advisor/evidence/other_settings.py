"""Gains by other settings of the allocator, as the replay of a memory snapshot says."""

from __future__ import annotations

from dataclasses import dataclass

from kinetoscope.advisor.rule import RankView
from kinetoscope.analyses.memory_what_if import RECORDED, REPLAYED
from kinetoscope.model.memory.allocator import CUDA, device_name
from kinetoscope.model.snapshot.failures import total_memory
from kinetoscope.model.snapshot.of_trace import snapshot_of


@dataclass(frozen=True, slots=True)
class SettingGain:
    """The setting under which a device's allocator would reserve least, or no request would fail.

    Attributes:
        device: as torch names it, `cuda:0`.
        settings: what is changed; conf: all of `PYTORCH_CUDA_ALLOC_CONF` then.
        reserved: most bytes reserved then; instead: with the recorded settings, likewise replayed.
        recorded: most bytes that were reserved, in_use: most that were in use then.
        fits: no request would fail, while one did.
        trust: share of the recorded addresses that the replica predicts.
        total: bytes of the device; 0 where nothing says that.
        was_short: a request failed, or the allocator had to free its reserve and ask again.
    """

    device: str
    settings: str
    conf: str
    reserved: int
    instead: int
    recorded: int
    in_use: int
    fits: bool
    trust: float
    total: int
    was_short: bool


def setting_gains(rank: RankView) -> list[SettingGain]:
    """One of each device whose history can be replayed; none without a snapshot."""
    snapshot = snapshot_of(rank.trace)
    if snapshot is None:
        return []
    conf = str(snapshot.settings.get("PYTORCH_CUDA_ALLOC_CONF") or "")
    total = {device_name(CUDA, each): total_memory(rank.trace, snapshot, each) or 0 for each in snapshot.devices}
    gains = []
    for (name,), frame in rank.ask("memory_what_if").frame.group_by("device", maintain_order=True):
        rows = {str(row["settings"]): row for row in frame.iter_rows(named=True)}
        recorded, control = rows.pop(RECORDED), rows.pop(REPLAYED, None)
        if control is None or not rows:
            continue
        fitting = [row for row in rows.values() if control["failed"] and row["failed"] == 0]
        best = min(fitting or rows.values(), key=lambda row: int(row["reserved"]))
        settings = str(best["settings"])
        gains.append(
            SettingGain(
                device=str(name),
                settings=settings,
                conf=_joined(conf, settings),
                reserved=int(best["reserved"]),
                instead=int(control["reserved"]),
                recorded=int(recorded["reserved"]),
                in_use=int(recorded["in_use"]),
                fits=bool(fitting),
                trust=float(recorded["trust"]),
                total=total.get(str(name), 0),
                was_short=bool(recorded["failed"] or recorded["retries"]),
            )
        )
    return gains


def _joined(conf: str, settings: str) -> str:
    """The recorded text with an option changed, or added."""
    option = settings.partition(":")[0]
    others = [part for part in conf.split(",") if part.strip() and part.partition(":")[0].strip() != option]
    return ",".join([*others, settings])
