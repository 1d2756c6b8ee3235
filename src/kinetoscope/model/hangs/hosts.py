"""What the host of a rank does that does not come: as its stack, the log or the way it ended say."""

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
    ("unmatched send", ("send ", "isend ", "send_object_list ")),
    ("unmatched receive", ("recv ", "irecv ", "recv_object_list ")),
)
"""How frames begin in which a rank waits for a peer: gloo records no sends and receives."""

WITH_OTHERS: Final = ("signal 6", "signal 15", "SIGABRT", "SIGTERM")
"""How a rank ends that a watchdog or launcher ends because another hangs."""


def host_cause(host: Mapping[str, Any] | None) -> HostCause | None:
    """What keeps a host from its next call; None where nothing says."""
    if host is None:
        return None
    if host["ended"] and not any(word in host["ended"] for word in WITH_OTHERS):
        return "rank ended"
    stack = [frame.strip() for frame in reversed((host["stack"] or "").splitlines())]
    for texts in ([host["activity"] or ""], stack):
        for text in texts:
            for cause, words in ACTIVITIES:
                if any(word in text.lower() for word in words):
                    return cause
            if texts is stack and "distributed_c10d.py" in text:
                return next((cause for cause, words in AT_PEER if text.startswith(words)), None)
    return "host stalled" if host["activity"] or stack else None
