"""Mutilated dumps, read to the end: `python -m tests.readers.flight_recorder.mutilated [COUNT] [FIRST_SEED]`.

Whatever a dump is, it becomes columns, a trace and records of a hang, or is refused in one line.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import time
from contextlib import suppress

from kinetoscope.errors import InputError
from kinetoscope.model.hangs.of_dumps import records_of_dumps
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.flight_recorder import load
from kinetoscope.readers.flight_recorder.alone import trace_of
from tests.readers.flight_recorder.writing import as_json, content, dump, entry
from tests.readers.snapshot.test_hostile import mutated


def originals() -> list[bytes]:
    """A dump in every form, small enough that an accident hits something."""
    calls = [
        entry(0),
        entry(1, input_sizes=[[]], is_p2p=True, profiling_name="nccl:send 0->1"),
        entry(2, state="started", time_discovered_completed_ns=None, process_group=("3", "mesh_tp"), pg_id=1),
        entry(3, profiling_name="gloo:barrier", input_sizes=[[2, 3], []], time_discovered_started_ns=None),
    ]
    written = dump(calls)
    old = dump(calls[:2], "1.4")
    forms = [content(written), content(old), *(pickle.dumps(written, protocol) for protocol in (2, 4, 5))]
    return [*forms, json.dumps(as_json(written)).encode()]


def survive(seed: int, count: int) -> tuple[int, int]:
    """How many of so many mutilated dumps were read, and how many refused; nothing else happens."""
    rng, files = random.Random(seed), originals()
    read = 0
    for _ in range(count):
        text = mutated(rng.choice(files), files, rng)
        size = rng.choice([1 << 22, 256])
        try:
            whole = load("mutilated", [text[place : place + size] for place in range(0, len(text), size)])
        except InputError as error:
            if len(str(error).splitlines()) != 1:
                raise AssertionError(str(error)) from error
            continue
        records_of_dumps(0, [whole])
        trace_of(Source("mutilated", reader="flight_recorder"), [whole])
        read += 1
    return read, count - read


if __name__ == "__main__":
    total, first = (*map(int, sys.argv[1:]), *(100_000, 1)[len(sys.argv) - 1 :])
    began = time.monotonic()
    with suppress(KeyboardInterrupt):
        for start in range(0, total, 1000):
            got = survive(first + start, min(1000, total - start))
            sys.stdout.write(f"{start + sum(got):,}: {got[0]} read, {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
