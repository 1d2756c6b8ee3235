"""Memory snapshots of torch's allocator: pickles that are read without unpickling, and the same as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kinetoscope.model.snapshot.snapshot import Snapshot

_PICKLE: Final = re.compile(rb"\A\x80[\x02-\x05](?:\x95.{8})?([}\]])", re.DOTALL)
_JSON: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*(?:\{\s*"(?:segments|device_traces|allocator_settings|external_annotations|'
    rb'host_segments|host_traces)"\s*:|(\[)\s*\{\s*")'
)


def is_snapshot(head: bytes) -> bool:
    """True if a file that begins like this, decompressed, is a memory snapshot, or a list of its segments."""
    if pickled := _PICKLE.match(head):
        if pickled[1] == b"}":
            return b"segments" in head or b"device_traces" in head
        return b"total_size" in head and b"segment_type" in head
    if written := _JSON.match(head):
        return not written[1] or (b'"total_size"' in head and b'"segment_type"' in head)
    return False


def load(url: str, blocks: Iterable[bytes]) -> Snapshot:
    """The snapshot in a file, given as blocks of its decompressed bytes. Pickles are never unpickled.

    Raises:
        NotATraceError: it is something else, or would call something.
        BrokenTraceError: it is cut, or damaged.
    """
    from kinetoscope.readers.snapshot import pickles

    return pickles.load(url, blocks)
