"""Files made to do harm: what they would call, what would fill the memory, what would never end, and accidents."""

from __future__ import annotations

import json
import pickle
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest

from kinetoscope.errors import BrokenTraceError, InputError, NotATraceError
from kinetoscope.readers.snapshot import load
from tests.readers.bombs import peak
from tests.readers.snapshot.test_pickles import drawn

START: Final = b"\x80\x04"


def refused(content: bytes) -> str:
    """The one line with which it is refused."""
    with pytest.raises(InputError) as error:
        load("hostile", [content])
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


@pytest.mark.parametrize(
    ("opcodes", "name"),
    [
        (b"cos\nsystem\n", "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"ios\nsystem\n", "INST"),
        (b")R", "REDUCE"),
        (b"}b", "BUILD"),
        (b"(o", "OBJ"),
        (b")\x81", "NEWOBJ"),
        (b"\x82\x01", "EXT1"),
        (b"P1\n", "PERSID"),
        (b"Q", "BINPERSID"),
        (b"I1\n", "INT"),
        (b"B\xff\xff\xff\x7f", "BINBYTES"),
        (b"\x8b\xff\xff\xff\x7f", "LONG4"),
        (b"\x97", "NEXT_BUFFER"),
        (b"2", "DUP"),
        (b"\xff", "the byte 0xff"),
    ],
)
def test_opcodes_that_snapshots_lack_are_refused_by_name(opcodes: bytes, name: str) -> None:
    assert name in refused(START + opcodes + b".") + " "


@pytest.mark.parametrize(
    ("opcodes", "reason"),
    [
        (b"\x8d" + struct.pack("<Q", 1 << 60), "longer than any"),
        (b"h\x05", "an object that is not there"),
        (b"j\xff\xff\xff\x7f", "an object that is not there"),
        (b"]r\xff\xff\xff\x7f", "an object that is not there"),
        (b"K\x01\x94h\x00", "an object that is not there"),
        (b"K\x01\x86", "lacks its arguments"),
        (b"K\x01a", "lacks its arguments"),
        (b"K\x01e", "lacks its arguments"),
        (b"(u", "lacks its arguments"),
        (b"}(K\x01u", "lacks its arguments"),
        (b"}(NK\x02u", "not of the type"),
        (b"}(\x8c\x05state\x8c\x08inactive\x8c\x04size]u", "size"),
        (b"]\x94(K\x01K\x02K\x03eh\x00K\x04a", "that torch never writes"),
        (b".", "lacks its arguments"),
        (b"(" * 100_000 + b".", "lacks its arguments"),
        (b"]" * 100_000 + b"a" * 99_999, "before the snapshot does"),
        (b"K\x01.", "no memory snapshot"),
        (b"}.", "no memory snapshot"),
        (b"}\x8c\x08segmentsK\x01s.", "'segments' of the snapshot is not"),
    ],
)
def test_what_no_pickler_writes_is_refused(opcodes: bytes, reason: str) -> None:
    assert reason in refused(START + opcodes)


@pytest.mark.parametrize("protocol", [0, 1, 6, 255])
def test_other_protocols_are_refused(protocol: int) -> None:
    assert f"protocol {protocol}" in refused(bytes([0x80, protocol]) + b"}.")


def test_settings_that_hold_each_other_end() -> None:
    settings: dict[str, Any] = {"leaf": 1}
    for _ in range(30):
        settings = {str(k): settings for k in range(50)}
    snapshot = load("hostile", [pickle.dumps({"segments": [], "allocator_settings": settings})])
    assert snapshot.settings
    cycle: dict[str, Any] = {str(k): k for k in range(1001)}
    cycle["self"] = cycle
    load("hostile", [pickle.dumps({"segments": [], "allocator_settings": cycle})])


def test_a_list_taken_from_the_memo_cannot_grow() -> None:
    frame = b"}(\x8c\x08filename\x8c\x01xu"
    content = START + b"]\x94(" + frame * 1000 + b"e" + b"h\x00q\x01(" + frame + b"e"
    assert "that torch never writes" in refused(content)


# --- accidents


def originals() -> list[bytes]:
    """A snapshot in every form, small enough that an accident hits something."""
    snapshot = drawn()
    snapshot["device_traces"][1] = snapshot["device_traces"][1][:5]
    return [*(pickle.dumps(snapshot, protocol) for protocol in (2, 4, 5)), json.dumps(snapshot).encode()]


def mutated(original: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A file after one to four accidents."""
    content = bytearray(original)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(content)), rng.randint(1, 40)
        match rng.randrange(7):
            case 0:
                content[at] = rng.randrange(256)
            case 1:
                content[at] ^= 1 << rng.randrange(8)
            case 2:
                del content[at : at + size]
            case 3:
                content[at:at] = content[at : at + size]
            case 4:
                content[at:at] = bytes([rng.choice(b"()]}.aeustq\x94\x85\x86\x87\x8a\x8c\x95hjKMJGNX{[,:")])
            case 5:
                other = rng.choice(others)
                start = rng.randrange(len(other))
                content[at : at + size] = other[start : start + size]
            case _:
                del content[at:]
        if not content:
            break
    return bytes(content)


def survive(seed: int, count: int) -> tuple[int, int]:
    """How many of so many mutilated snapshots were read, and how many refused; nothing else happens."""
    rng, files = random.Random(seed), originals()
    read = 0
    for _ in range(count):
        content = mutated(rng.choice(files), files, rng)
        size = rng.choice([1 << 22, 256])
        with suppress(InputError):
            load("mutated", [content[place : place + size] for place in range(0, len(content), size)])
            read += 1
    return read, count - read


def test_accidents_are_read_or_refused() -> None:
    read, refusals = survive(1, 100)
    assert read > 0
    assert refusals > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_thousand_accidents_are_read_or_refused(seed: int) -> None:
    read, refusals = survive(seed, 25_000)
    assert read > 0
    assert refusals > 0


# --- memory

FRAME: Final = b"}(\x8c\x08filename\x8c\x01x\x8c\x04lineJ"
BOMBS: Final[dict[str, Callable[[int], bytes]]] = {
    "lists in the memo": lambda n: b"]\x94" * (n // 2),
    "marks": lambda n: b"(" * n,
    "empty devices": lambda n: b"}(\x8c\x08segments]\x8c\x0ddevice_traces](" + b"]" * n + b"eu.",
    "small events": lambda n: (
        b"\x8c\x06action\x94\x8c\x05alloc\x94]("
        + b"}(h\x00h\x01u" * (n // 7)
        + b"e."
    ),
    "small blocks": lambda n: b"\x8c\x05state\x94\x8c\x08inactive\x94](" + b"}h\x00h\x01s" * (n // 6) + b"e.",
    "texts": lambda n: b"](" + b"".join(b"\x8c\x04" + k.to_bytes(4, "big") for k in range(n // 6)) + b"e.",
    "texts to escape": lambda n: (
        b"}(\x8c\x08segments]\x8c\x01x]("
        + b"".join(b"X\x00\x00\x01\x00" + k.to_bytes(4, "big") + b'"' * 65532 for k in range(n >> 16))
        + b"eu."
    ),
    "blocks": lambda n: (
        b"}(\x8c\x08segments](}(\x8c\x0atotal_sizeK\x01\x8c\x06blocks]("
         b"}(\x8c\x07address\x94\x8a\x06abcdef\x8c\x04size\x94M\x00\x02\x8c\x0erequested_size\x94M\x00\x02"
         b"\x8c\x05state\x94\x8c\x10active_allocated\x94\x8c\x06frames\x94]u"
        + b"}(h\x00\x8a\x06abcdefh\x01M\x00\x02h\x02M\x00\x02h\x03h\x04h\x05]u" * (n // 32)
        + b"eueu."
    ),
    "frames": lambda n: b"](" + b"".join(FRAME + k.to_bytes(4, "big") + b"u" for k in range(n // 27)) + b"e.",
    "pairs": lambda n: b"](" + b"".join(b"K\x01J" + k.to_bytes(4, "big") + b"\x86" for k in range(n // 8)) + b"e.",
    "other dicts": lambda n: b"\x8c\x01x\x94](" + b"}h\x00h\x00s" * (n // 6) + b"e.",
    "stacks": lambda n: (
        b"]("
        + FRAME
        + b"\0\0\0\0u\x94"
        + b"".join(b"(" + b"h\x00" * (k % 997 + 1) + b"t" for k in range(n // 1000))
        + b"e."
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_no_file_takes_twice_its_size_in_memory(name: str, tmp_path: Any) -> None:
    path = tmp_path / "bomb.pickle"
    path.write_bytes(START + BOMBS[name](100 << 20))
    assert peak(path, "snapshot", "segments") <= 2 * path.stat().st_size


def test_bombs_are_refused_for_what_they_are() -> None:
    with pytest.raises(BrokenTraceError, match="more than those of any memory snapshot"):
        load("bomb", [START + BOMBS["lists in the memo"](24 << 20)])
    with pytest.raises(BrokenTraceError, match="devices beyond"):
        load("bomb", [START + BOMBS["empty devices"](5000)])
    with pytest.raises(NotATraceError):
        load("bomb", [START + b"]."])
