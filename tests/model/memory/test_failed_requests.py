"""Verdicts on failed requests from torch's own text, in the words of several versions."""

from __future__ import annotations

import pytest

from kinetoscope.model.memory.error_text import out_of_memory_text, request_of
from kinetoscope.model.memory.failed_requests import FailedRequest, judgement_of

GIB = 1 << 30
MIB = 1 << 20

FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 47.53 GiB"
    " of which 16.88 MiB is free. Process 3652628 has 47.51 GiB memory in use. Of the allocated memory 47.14 GiB is"
    " allocated by PyTorch, and 57.79 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is"
    " large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
IN_PIECES = (
    "CUDA out of memory. Tried to allocate 764.00 MiB. GPU 0 has a total capacty of 47.37 GiB of which 442.88 MiB"
    " is free. Including non-PyTorch memory, this process has 46.92 GiB memory in use. Of the allocated memory 42.40"
    " GiB is allocated by PyTorch, and 3.24 GiB is reserved by PyTorch but unallocated."
)
HELD_BY_OTHERS = (
    "CUDA out of memory. Tried to allocate 300.00 MiB. GPU 3 has a total capacity of 79.15 GiB of which 69.95 MiB is"
    " free. Process 77 has 61.02 GiB memory in use. Process 78 has 18.06 GiB memory in use. Of the allocated memory"
    " 17.34 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated."
)
LIMITED = (
    "CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 16.00 GiB of which 12.19 GiB is"
    " free. 4.00 GiB allowed; Of the allocated memory 3.81 GiB is allocated by PyTorch, and 0 bytes is reserved by"
    " PyTorch but unallocated."
)
GRAPHS = (
    "CUDA out of memory. Tried to allocate 1000.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 174.00 MiB is"
    " free. Of the allocated memory 7.83 GiB is allocated by PyTorch, with 7.82 GiB allocated in private pools (e.g.,"
    " CUDA Graphs), and 0 bytes is reserved by PyTorch but unallocated."
)
ABSURD = (
    "CUDA out of memory. Tried to allocate 130206.04 GiB. GPU 0 has a total capacity of 23.56 GiB of which 16.57 GiB is"
    " free. Of the allocated memory 5.45 GiB is allocated by PyTorch, and 1.17 GiB is reserved by PyTorch but"
    " unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 39.59 GiB total capacity; 37.68 GiB already"
    " allocated; 1.19 MiB free; 38.09 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try"
    " setting max_split_size_mb to avoid fragmentation."
)


@pytest.mark.parametrize(
    ("text", "verdict", "confidence"),
    [
        (FULL, "live data", "high"),
        (IN_PIECES, "fragmentation", "medium"),
        (HELD_BY_OTHERS, "outside of the allocator", "high"),
        (LIMITED, "limit", "high"),
        (GRAPHS, "graph pool", "medium"),
        (ABSURD, "request too large", "high"),
        (OLD, "live data", "medium"),
    ],
)
def test_verdicts_on_texts(text: str, verdict: str, confidence: str) -> None:
    parsed = out_of_memory_text(f"Traceback (most recent call last):\n  File x\n{text}\n")
    assert parsed is not None
    judgement = judgement_of(request_of(parsed))
    assert (judgement.verdict, judgement.confidence) == (verdict, confidence)


def test_the_numbers_of_a_text() -> None:
    parsed = out_of_memory_text(f"{FULL}\nduring handling of which\n{OLD}")
    assert parsed is not None  # the last one
    assert (parsed.device, parsed.requested, parsed.total) == (1, 20 * MIB, round(39.59 * GIB))
    assert parsed.reserved == round(38.09 * GIB)
    named = out_of_memory_text(HELD_BY_OTHERS)
    assert named is not None
    assert named.processes == ((77, round(61.02 * GIB)), (78, round(18.06 * GIB)))
    assert out_of_memory_text("CUDA error: out of memory") is None


def request(**facts: object) -> FailedRequest:
    """A request of 1 GiB on a full device of 80 GiB, most of it live."""
    full = {
        "requested": GIB,
        "needed": GIB,
        "free": GIB // 4,
        "total": 80 * GIB,
        "reserved": 79 * GIB,
        "live": 70 * GIB,
    }
    return FailedRequest(**{**full, **facts})  # type: ignore[arg-type]


def test_the_largest_part_that_would_have_been_enough_is_the_reason() -> None:
    both = judgement_of(request(parts={"fragmentation": 6 * GIB, "graph pool": 3 * GIB}))
    assert (both.verdict, both.confidence, both.part) == ("fragmentation", "medium", 6 * GIB)
    one = judgement_of(request(parts={"fragmentation": GIB // 8, "graph pool": 6 * GIB}))
    assert (one.verdict, one.confidence) == ("graph pool", "high")
    assert judgement_of(request(parts={"pending free": 6 * GIB}, is_exact=False)).confidence == "medium"


def test_nothing_is_certain_that_the_record_does_not_tell() -> None:
    alone = judgement_of(request(total=None))
    assert (alone.verdict, alone.confidence) == ("live data", "medium")  # others may have had the rest
    proven = judgement_of(request(total=None, most_reserved=100 * GIB))
    assert proven.verdict == "outside of the allocator"
    there = judgement_of(request(fits=2 * GIB))
    assert (there.verdict, there.confidence) == ("cannot be told", "low")
    assert judgement_of(request(reserved=None, live=None)).verdict == "cannot be told"
