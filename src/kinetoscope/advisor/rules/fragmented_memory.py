"""MEMORY004: the allocator reserves much more memory than is in use, and it is scarce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.evidence.memory import allocator_calls, in_steady_state, memory_use
from kinetoscope.advisor.evidence.other_settings import SettingGain, setting_gains
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.views.sentences import EMPTY, measured, say

_HELD: Final = 0.3
"""Share of what the allocator reserves that is not in use at the peak, from which on it counts as fragmented."""

_SCARCE: Final = 0.7
"""Share of a device's memory that the allocator reserves, from which on that matters."""

_GAIN: Final = 0.05
"""Share of what the allocator would reserve, from which on a setting that saves so much is reported."""

_GAIN_BYTES: Final = 100_000_000
"""Likewise; of less, no batch is made."""


def fragmented_memory(rank: RankView) -> Iterator[Finding]:
    """Does the allocator reserve much more memory than is in use at the peak?

    What it checks. The memory that the allocator had reserved on each device when most was allocated. The rule reports
    it if three tenths of it or more were not in use, and the allocator reserves seven tenths of the device's memory or
    still asks the driver for more in each step. Then there are free blocks, but they are too small or in the wrong
    place. With a memory snapshot, its history is replayed under other settings (`memory_what_if`). The rule reports
    the one under which the allocator would reserve least, if that is a twentieth and 100 MB less, or under which no
    request would fail. It is silent where the allocator reserves less than seven tenths of the device's memory and was
    never short of it.

    Why it matters. Memory runs out although there is enough of it, or the batch is smaller than it could be. No time is
    at stake, so it is a note; MEMORY003 counts the time of the allocator's calls.

    What to do. Let segments grow, and use few different input sizes.
    """
    gains = setting_gains(rank)
    yield from filter(None, (_replayed(gain) for gain in gains))
    calling = bool(len(in_steady_state(rank, allocator_calls(rank.trace))))
    for use in memory_use(rank):
        unused = use.reserved - use.peak
        scarce = use.total > 0 and use.reserved >= _SCARCE * use.total
        if use.device in {gain.device for gain in gains}:  # the snapshot says more
            continue
        if use.reserved <= 0 or unused < _HELD * use.reserved or not (scarce or calling):
            continue
        of = say(" of {total}", total=measured(use.total, "bytes")) if use.total else EMPTY
        yield Finding(
            message=say(
                "The allocator reserves much more memory than is in use. It has reserved {reserved}{of} on {device} at"
                " the peak, and {unused} of it ({part}) are unused.",
                reserved=measured(use.reserved, "bytes"),
                of=of,
                device=quoted(use.device),
                unused=measured(unused, "bytes"),
                part=share(unused, use.reserved),
            ),
            change="+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment",
            why="No time is at stake, but memory for a larger batch.",
            confidence="medium",
            evidence=(event_evidence(rank, use.row, "the peak of allocated memory", "memory_curve"),),
            key=use.device,
        )


def _replayed(gain: SettingGain) -> Finding | None:
    """The finding that the replay of a snapshot makes about a device."""
    ample = 0 < gain.recorded < _SCARCE * gain.total and not gain.was_short
    if not gain.fits and (ample or gain.instead - gain.reserved < max(_GAIN * gain.instead, _GAIN_BYTES)):
        return None
    reserved, settings = measured(gain.reserved, "bytes"), quoted(gain.settings)
    if gain.fits:
        would = say("with {settings} no request fails, and it reserves at most {reserved}",
                    settings=settings, reserved=reserved)  # fmt: skip
    else:
        instead = measured(gain.instead, "bytes")
        would = say("with {settings} it reserves at most {reserved}, and {instead} with the recorded settings",
                    settings=settings, reserved=reserved, instead=instead)  # fmt: skip
    return Finding(
        message=say(
            "The allocator reserves more than another setting needs. It reserves up to {recorded} on {device}, and"
            " at most {in_use} are in use. Replayed from an empty allocator, {would}.",
            recorded=measured(gain.recorded, "bytes"),
            device=quoted(gain.device),
            in_use=measured(gain.in_use, "bytes"),
            would=would,
        ),
        change=f"+ PYTORCH_CUDA_ALLOC_CONF={gain.conf}  # in the environment",
        why=say(
            "No time is at stake, but memory: replayed by a replica of the allocator that predicts {trust} of the"
            " recorded addresses.",
            trust=share(gain.trust, 1),
        ),
        evidence=(Evidence("the same history under other settings", "memory_what_if"),),
        key=gain.device,
    )


RULE = Rule("MEMORY004", "Memory is fragmented", fragmented_memory, unfit=frozenset())
