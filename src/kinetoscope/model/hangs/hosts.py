"""The host of a rank that does not come: what it does by its stack, by the log, or by the way it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

HostCause = Literal["rank ended", "data loading", "checkpoint", "host stalled", "unmatched send", "unmatched receive"]

ACTIVITIES: Final[tuple[tuple[HostCause, tuple[str, ...]], ...]] = (
    ("data loading", ("data load", "dataload", "loader", "dataset", "fetch")),
    ("checkpoint", ("checkpoint", "torch.save", "serialization.py", "state_dict_saver", "saving")),
)
"""Words of activities and of frames, innermost frames first."""

AT_PEER: Final[tuple[tuple[HostCause, tuple[str, ...]], ...]] = (
    ("unmatched send", (": send", ": isend", ": send_object_list")),
    ("unmatched receive", (": recv", ": irecv", ": recv_object_list")),
)
"""How frames end in which a rank waits for a peer: gloo records no sends and receives."""

SIGNALS_TO_ALL: Final = ("signal 6", "signal 15", "SIGABRT", "SIGTERM")
"""How a rank ends that a watchdog or launcher ends because another hangs."""


WELL: Final = ("exit code 0", "the program ended")
"""How a rank ends that is done."""


def host_cause(host: Mapping[str, Any] | None) -> HostCause | None:
    """The thing that keeps a host from its next call; None where nothing says."""
    if host is None:
        return None
    if has_ended(host["ended"] or ""):
        return "rank ended"
    return _of_texts(host["activity"] or "", (host["stack"] or "").split(";"))


def _of_texts(activity: str, frames: list[str]) -> HostCause | None:
    """The cause that an activity or a stack, outermost frame first, names."""
    stack = [frame.strip() for frame in reversed(frames) if frame.strip()]
    for text in (activity, *stack):
        if (cause := _of_text(text)) is not None:
            return cause
        if "distributed_c10d.py" in text:
            return None  # it waits for other ranks, in a call that is not recorded
    return "host stalled" if activity or stack else None


def has_ended(text: str) -> bool:
    """A rank has ended by itself, and not because others hang."""
    return bool(text) and not any(word in text for word in SIGNALS_TO_ALL)


def _of_text(text: str) -> HostCause | None:
    """The cause that an activity or a frame names."""
    for cause, words in ACTIVITIES:
        if any(word in text.lower() for word in words):
            return cause
    return next((cause for cause, words in AT_PEER if "distributed_c10d.py" in text and text.endswith(words)), None)
