"""The machine over a file: blocks of it in, tables filled, or one line that says why it is not read."""

from __future__ import annotations

import pickletools
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.readers.json.tokenizer import PADDING
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.json_text import JsonOpcodes
from kinetoscope.readers.pickled.tables import SPARE_BYTES, MachineTables

MAX_BYTES_PER_BYTE: Final = 1.25
"""Bytes of memory that a byte of a file may cost: torch's snapshots cost less than one."""

_OPCODES: Final = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_PICKLE_START: Final = b"\x80"


@dataclass(frozen=True, slots=True)
class Words:
    """Words about a file that is not read.

    Attributes:
        what: it should be, such as "a memory snapshot".
        anew: how another one is written.
    """

    what: str
    anew: str

    @property
    def copy(self) -> str:
        """The advice for a damaged one."""
        return f"copy the file again, or {self.anew}"

    def reason(self, what: int) -> str:
        """The reason why a file is refused."""
        last = self.what.rpartition(" ")[2]
        return {
            m.TOO_LONG: f"a text or number is longer than any of a {last}",
            m.STACK_UNDERFLOW: "an opcode lacks its arguments",
            m.NO_MEMO: "it refers to an object that is not there",
            m.WRONG_TYPE: "a value is not of the type that torch writes there",
            m.MIXED: "a list or dict is added to in a way that torch never writes",
        }[what]


def run(
    url: str, blocks: Iterable[bytes], tables: MachineTables, words: Words, cost: float = MAX_BYTES_PER_BYTE
) -> int:
    """Run the machine over all blocks of a pickle or of JSON; bytes of memory that what they hold may take.

    cost: bytes of memory that a byte of the file may cost, besides `SPARE_BYTES`.

    Raises:
        NotATraceError: it is no pickle of numbers, texts, lists and dicts.
        BrokenTraceError: it is cut, or damaged, or makes more objects than its kind has.
    """
    room, damage = run_until_damage(url, blocks, tables, words, cost)
    if damage is not None:
        raise damage
    return room


def run_until_damage(
    url: str, blocks: Iterable[bytes], tables: MachineTables, words: Words, cost: float = MAX_BYTES_PER_BYTE
) -> tuple[int, BrokenTraceError | None]:
    """The same as `run`; where the file is cut or damaged, the machine stands before that, and the error is returned.

    Raises:
        NotATraceError: it is no pickle of numbers, texts, lists and dicts.
        BrokenTraceError: it makes more objects than its kind has.
    """
    blocks = iter(blocks)
    first = next(blocks, b"")
    blocks = chain([first], blocks)
    pieces = blocks if first.startswith(_PICKLE_START) else JsonOpcodes(url, blocks, words.what)
    ran = _run(url, pieces, tables, words, cost)
    tables.take_rows()
    return ran


def _run(
    url: str, blocks: Iterable[bytes], tables: MachineTables, words: Words, cost: float
) -> tuple[int, BrokenTraceError | None]:
    at, rest, offset, room = tables.at, b"", 0, SPARE_BYTES
    for block in blocks:
        limit = len(rest) + len(block)
        text = np.full(limit + PADDING, ord('"'), np.uint8)
        text[: len(rest)] = np.frombuffer(rest, np.uint8)
        text[len(rest) : limit] = np.frombuffer(block, np.uint8)
        at[m.POSITION] = 0
        read = blocks.taken if isinstance(blocks, JsonOpcodes) else offset + limit
        room = int(cost * read) + SPARE_BYTES
        while (status := m.run(text, limit, at, *tables.arrays.values())) == m.ROOM:
            tables.grow(int(at[m.WHAT]), limit - int(at[m.POSITION]))
            if tables.nbytes > room:
                raise BrokenTraceError(
                    f"{url}: its first {read:,} bytes make {tables.nbytes:,} bytes of objects, more than those of "
                    f"{words.what.replace('a ', 'any ', 1)}; {words.copy}"
                )
        position = int(at[m.POSITION])
        if status == m.DONE:
            return room, None
        if status == m.REFUSED:
            place = read if isinstance(blocks, JsonOpcodes) else offset + position
            return room, _refusal(url, place, int(at[m.WHAT]), int(at[m.DETAIL]), words)
        rest = text[position:limit].tobytes()
        offset += position
    return room, _end(url, blocks, offset + len(rest), words)


def _end(url: str, blocks: Iterable[bytes], read: int, words: Words) -> BrokenTraceError:
    """The error of a file that ends before what is in it does, or that is no JSON from there on."""
    if isinstance(blocks, JsonOpcodes):
        read = blocks.taken
        if blocks.damage is not None:
            return blocks.damage
    last = words.what.rpartition(" ")[2]
    return BrokenTraceError(f"{url}: the file ends before the {last} does, after {read:,} bytes; {words.copy}")


def _refusal(url: str, place: int, what: int, detail: int, words: Words) -> BrokenTraceError:
    """The error of a damaged file.

    Raises:
        NotATraceError: it is no damage, but another kind of file.
    """
    if what == m.OPCODE:
        name = _OPCODES.get(detail)
        reason = f"the opcode {name}" if name else f"the byte 0x{detail:02x}, which is no opcode,"
        raise NotATraceError(
            f"{url}: {reason} at byte {place:,} is none of {words.what}, so the file is not read, and "
            f"nothing of it ran; {words.anew}"
        )
    if what == m.PROTOCOL:
        raise NotATraceError(f"{url}: pickle protocol {detail} is none of 2 to 5; {words.copy}")
    reason = words.reason(what)
    if what == m.WRONG_TYPE and 0 <= detail < len(m.KEYS):
        reason += f" (key {m.KEYS[detail]!r})"
    return BrokenTraceError(f"{url}: broken at byte {place:,}: {reason}; {words.copy}")
