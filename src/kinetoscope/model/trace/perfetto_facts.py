"""Names of what stands in a file for Perfetto of ours besides events: metadata that its reader takes, others ignore."""

from __future__ import annotations

from typing import Final

FACT_PREFIX: Final = "kinetoscope."
"""The beginning of all names; behind it are these, and the keys of the trace's top level."""

FACT_TRACKS: Final = "tracks"
FACT_METADATA_EVENTS: Final = "metadata events"
FACT_FIRST_TIME: Final = "first time"
FACT_NESTED: Final = "nested"
"""Tracks as uuid, pid and tid; events of phase M; the time of the first event, ns; ids of texts that are JSON."""
