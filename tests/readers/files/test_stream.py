"""The text of a file comes out as it went in, however it is stored; of damaged data all that is sound."""

import gzip
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from kinetoscope.readers.files import stream
from kinetoscope.readers.files.decompress import STORED_BYTES
from kinetoscope.readers.files.stream import TextBlocks

RANDOM = random.Random(0)
TEXT = b"\n".join(f'{{"ph": "X", "ts": {RANDOM.random()}}}'.encode() for _ in range(60_000))  # 2 MB, 0.6 MB stored
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00pzst"


def _read(file: Path, content: bytes) -> tuple[bytes, TextBlocks]:
    file.write_bytes(content)
    with TextBlocks(str(file), ahead=False) as here:
        without_thread = b"".join(here)
    with TextBlocks(str(file)) as blocks:
        text = b"".join(blocks)
    assert without_thread == text
    assert (here.fault, here.goes_on, here.length) == (blocks.fault, blocks.goes_on, blocks.length)
    assert blocks.length == len(text)
    assert blocks.stored == len(content)
    return text, blocks


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT),
        zstd.compress(TEXT),
        b"".join(gzip.compress(TEXT[k : k + 1000]) for k in range(0, len(TEXT), 1000)),
        b"".join(zstd.compress(TEXT[k : k + 50_000]) for k in range(0, len(TEXT), 50_000)),
        b"".join(SKIPPED + zstd.compress(TEXT[k : k + 500_000]) for k in range(0, len(TEXT), 500_000)),
        gzip.compress(TEXT) + b"\0" * 512,
        gzip.compress(TEXT[:5]) + gzip.compress(b"") + gzip.compress(TEXT[5:]),
    ],
    ids=["plain", "gzip", "zstd", "members", "frames", "pzstd", "padded", "empty member"],
)
def test_as_it_went_in(tmp_path: Path, content: bytes) -> None:
    text, blocks = _read(tmp_path / "any.name", content)
    assert text == TEXT
    assert not blocks.fault
    assert not blocks.goes_on


def test_blocks_are_neither_large_nor_small(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"".join(gzip.compress(TEXT[k : k + 1000]) for k in range(0, len(TEXT), 1000)))
    with TextBlocks(str(tmp_path / "t")) as blocks:
        sizes = [len(block) for block in blocks]
    assert all(STORED_BYTES <= size <= stream.MAX_BLOCK_BYTES for size in sizes[:-1])


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_something_follows(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    text, blocks = _read(tmp_path / "t", compress(TEXT) + b"and more")
    assert (text, blocks.fault, blocks.goes_on) == (TEXT, [], True)


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_cut_anywhere(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    stored = compress(TEXT)
    for cut in (len(stored) // 3, len(stored) // 2, len(stored) - 9, len(stored) - 1):
        text, blocks = _read(tmp_path / "t", stored[:cut])
        assert TEXT.startswith(text)
        assert len(text) > len(TEXT) * (cut / len(stored) - 0.25)  # Zstandard has blocks of 128 KiB
        assert blocks.fault == ["the compressed data ends early"]


def test_all_of_a_cut_gzip_file(tmp_path: Path) -> None:
    stored = gzip.compress(TEXT)[:-100_000]
    text, _ = _read(tmp_path / "t", stored)
    assert len(zlib.decompressobj(31).decompress(stored)) - len(text) <= 1


def test_all_before_the_damage(tmp_path: Path) -> None:
    """The library throws away what it made of the same piece of input; it is had back byte by byte."""
    stored = bytearray(gzip.compress(TEXT, 6))
    place = len(stored) * 2 // 3
    stored[place : place + 40] = b"\xff" * 40
    text, blocks = _read(tmp_path / "t", bytes(stored))
    sound = zlib.decompressobj(31).decompress(bytes(stored[:place]))
    assert TEXT.startswith(sound)
    assert text.startswith(sound[:-300])
    assert blocks.fault[0].startswith("the compressed data is corrupt")


def test_a_wrong_checksum_costs_nothing(tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(TEXT))
    stored[-6] ^= 255
    text, blocks = _read(tmp_path / "t", bytes(stored))
    assert text == TEXT
    assert blocks.fault == ["the compressed data is corrupt (Error -6 Incorrect checksum found)"]


def test_damage_in_the_second_member(tmp_path: Path) -> None:
    second = bytearray(gzip.compress(TEXT))
    second[20_000] ^= 255
    text, blocks = _read(tmp_path / "t", gzip.compress(TEXT) + bytes(second))
    assert text.startswith(TEXT)
    assert blocks.fault


def test_urls(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(gzip.compress(TEXT))
    with TextBlocks(f"file://{tmp_path}/t.gz") as blocks:
        assert b"".join(blocks) == TEXT


def test_peek(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(TEXT)
    with TextBlocks(str(tmp_path / "t")) as blocks:
        first = blocks.peek()
        assert blocks.peek() is first
        assert blocks.length == 0
        assert first + b"".join(list(blocks)[1:]) == TEXT
