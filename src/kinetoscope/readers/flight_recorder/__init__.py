"""Dumps of torch's Flight Recorder: pickles that are read without unpickling, and the same as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kinetoscope.model.flight_recorder.dump import FlightDump

_KEY: Final = rb"(?:version|entries|pg_config|pg_status|comm_lib_version|nccl_version|nccl_comm_state)"
_PICKLE: Final = re.compile(
    rb"\A\x80[\x02-\x05](?:\x95.{8})?\}(?:\x94|q.|r.{4})?\(?(?:X.\0\0\0|\x8c.)" + _KEY + rb"(?:\x94|q|r|[^a-z_])",
    re.DOTALL,
)
_JSON: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"' + _KEY + rb'"\s*:')
_WORDS: Final = (b"pg_config", b"pg_status", b"profiling_name", b"entries")


def is_dump(head: bytes) -> bool:
    """True if a file that begins like this, decompressed, is a dump of the Flight Recorder."""
    begins = _PICKLE.match(head) or _JSON.match(head)
    return begins is not None and any(word in head for word in _WORDS)


def load(url: str, blocks: Iterable[bytes]) -> FlightDump:
    """The dump in a file, given as blocks of its decompressed bytes. Pickles are never unpickled.

    Raises:
        NotATraceError: it is something else, or would call something.
        BrokenTraceError: it is cut, or damaged.
    """
    from kinetoscope.readers.flight_recorder import dumps

    return dumps.load(url, blocks)
