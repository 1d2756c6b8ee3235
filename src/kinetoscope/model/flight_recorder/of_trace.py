"""The Flight Recorder's dumps of the rank of a trace: read when first asked for, and kept with the trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.flight_recorder.dump import COMPLETED, FlightDump
from kinetoscope.model.trace.trace import Trace

DUMPS: Final = "flight_recorder"
"""The kind of companions that dumps are."""

DAMAGED: Final = "DUMP_DAMAGED"
"""Code of the note on a dump that is cut or damaged."""

WHOLE_NAME: Final = "coalesced"
"""The name of the call that stands for several which were coalesced."""


def dumps_of(trace: Trace) -> tuple[FlightDump, ...]:
    """All of them, in order of name; () for a rank without any.

    Raises:
        InputError: one cannot be read.
    """
    return tuple(trace.companions(DUMPS))


def by_age(dumps: Iterable[FlightDump]) -> list[FlightDump]:
    """Dumps, of which several may have the same call, so that what the last of them says of it counts.

    A dump as a pickle tells more than the same as JSON: it has stacks.
    """
    return sorted(dumps, key=lambda dump: (dump.last_time, len(dump.stacks)))


def done_of(dump: FlightDump) -> Bools:
    """Calls that are done: bool [entries].

    The watchdog of NCCL and its kin retires also what has timed out, and its states say what is done. gloo and others
    have no states: there what is retired is done, or has failed, which nothing tells apart. Calls that were coalesced
    have no states of their own: they are done with the whole, which is one more call of their number.
    """
    entries = dump.entries
    has_states = np.array([*("ccl" in each.backend for each in dump.groups), False], np.bool_)
    done: Bools = (entries.state == COMPLETED) | (entries.retired & ~has_states[entries.group])
    is_whole = done & (entries.name == dump.strings.code(WHOLE_NAME))
    if is_whole.any():
        is_p2p = entries.is_p2p & (entries.p2p_seq >= 0)
        codes, first = group(entries.group, is_p2p.view(np.int8), np.where(is_p2p, entries.p2p_seq, entries.seq))
        of_whole = np.zeros(len(first), np.bool_)
        of_whole[codes[is_whole]] = True
        done = done | of_whole[codes]
    return done
