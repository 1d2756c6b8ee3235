"""The ceiling is only worth something if the sketch reads what is there."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

from benchmarks.sketch import Sketch, run_all
from benchmarks.template import read

TRACE = Path(__file__).parents[1] / "traces" / "conv.pt.trace.json.gz"


def test_it_finds_every_event_and_every_member() -> None:
    sketch = Sketch(gzip.decompress(TRACE.read_bytes()))
    events = read(TRACE)["traceEvents"]
    assert sketch.run() == len(events)
    run_all([sketch])
    first = sketch.first[: len(events)].tolist()
    sizes = [len(event) + len(event.get("args", {})) for event in events]
    assert [after - before for before, after in pairwise(first)] == sizes[:-1]
