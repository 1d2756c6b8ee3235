"""Dumps made to do harm: what they would call, what would fill the memory, what would never end, and accidents."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any, Final

import pytest

from kinetoscope.errors import InputError, NotATraceError
from kinetoscope.readers.flight_recorder import load
from tests.notes import codes
from tests.readers.bombs import peak
from tests.readers.flight_recorder.mutilated import survive
from tests.readers.flight_recorder.writing import content, dump, entry

START: Final = b"\x80\x04"


def refused(text: bytes) -> str:
    """The one line with which it is refused."""
    with pytest.raises(InputError) as error:
        load("hostile", [text])
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


class Calls:
    """Pickles as a call."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("executed",))


def test_what_would_be_called_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotATraceError, match=r"opcode STACK_GLOBAL at byte .* none of a Flight Recorder dump"):
        load("hostile", [pickle.dumps({"version": "2.10", "entries": [Calls()]}, 4)])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("opcodes", "reason"),
    [
        (b"cos\nsystem\n(S'ls'\ntR.", "opcode GLOBAL"),
        (b")R.", "opcode REDUCE"),
        (b"]r\xff\xff\xff\x7f", "an object that is not there"),
        (b"\x8d" + struct.pack("<Q", 1 << 60), "longer than any of a dump"),
        (b"]" * 100_000 + b"a" * 99_999, "before the dump does"),
        (b"}.", "no Flight Recorder dump"),
        (b"K\x01.", "no Flight Recorder dump"),
        (b"}\x8c\x07entriesK\x01s.", "'entries' of the dump is no list"),
        (b"}\x8c\x07entries](K\x01}es.", "'entries' of the dump is no list"),
    ],
)
def test_what_no_recorder_writes_is_refused(opcodes: bytes, reason: str) -> None:
    assert reason in refused(START + opcodes)


@pytest.mark.parametrize("form", ["c++", "pickle", "json"])
def test_a_dump_cut_anywhere_has_the_calls_before_that_or_is_refused(form: Any) -> None:
    calls = [entry(0), entry(1), entry(2)]
    whole = content(dump(calls), form)
    read: list[tuple[int, ...]] = []
    for length in range(1, len(whole), 41):
        try:
            cut = load("hostile", [whole[:length]])
        except InputError:
            assert not read
            assert "ends before the dump does" in refused(whole[:length])
            continue
        assert codes(cut.notes) == ["DUMP_DAMAGED"]
        assert "the file ends before the dump does, after" in cut.damage
        read.append(tuple(cut.entries.record.tolist()))
    assert [*dict.fromkeys(read)][:2] == [(0,), (0, 1)]


def test_what_stands_after_damage_counts_no_more() -> None:
    """An opcode without its arguments, after 1,500 calls, of which Python's pickler has appended 1,000."""
    whole = pickle.dumps(dump([entry(k) for k in range(2000)]), 4)
    at = whole.index(b"\x8c\x09record_id") + len(whole) * 3 // 4
    cut = load("damaged", [whole[:at] + b"aaaa" + whole[at:]])
    assert 1400 < len(cut.entries) < 1600
    assert cut.entries.record.tolist() == [*range(len(cut.entries))]
    assert cut.groups[0].ranks == (0, 1)


def test_what_is_no_json_is_refused() -> None:
    assert "no JSON of a Flight Recorder dump at byte" in refused(b'{"version": oops, "entries": []}')


def test_lists_that_hold_each_other_are_no_more_than_they_are() -> None:
    laughs: Any = ["lol"]
    for _ in range(40):
        laughs = [laughs] * 50
    inside: Any = {"leaf": 1}
    for _ in range(30):
        inside = {str(k): inside for k in range(50)}
    written = {**dump([entry(0, frames=laughs, input_sizes=laughs)]), "nccl_comm_state": inside, "pg_config": inside}
    assert len(load("laughs", [pickle.dumps(written)]).entries) == 1


def test_accidents_are_read_or_refused() -> None:
    read, refusals = survive(1, 300)
    assert read > 0
    assert refusals > 0


# --- memory

BOMBS: Final[dict[str, Callable[[int], bytes]]] = {
    "lists in the memo": lambda n: b"]\x94" * (n // 2),
    "small entries": lambda n: b"\x8c\x09record_id\x94](" + b"}h\x00K\x01s" * (n // 6) + b"e.",
    "numbers": lambda n: b"](" + b"".join(b"(K\x01J" + k.to_bytes(4, "big") + b"t" for k in range(n // 9)) + b"e.",
    "numbers as keys": lambda n: b"}(" + b"".join(b"J" + k.to_bytes(4, "big") + b"N" for k in range(n // 6)) + b"u.",
    "empty sizes": lambda n: (
        b"}\x8c\x07entries](\x8c\x0binput_sizes\x94" + b"}(\x8c\x09record_idK\x01h\x00](" + b"]" * n + b"euees."
    ),
    "names": lambda n: (
        b"\x8c\x0eprofiling_name\x94]("
        + b"".join(b"}h\x00\x8c\x04" + k.to_bytes(4, "big") + b"s" for k in range(n // 10))
        + b"e."
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_no_file_takes_thrice_its_size_in_memory(name: str, tmp_path: Any) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(START + BOMBS[name](60 << 20))
    assert peak(path, "flight_recorder", "entries") <= 3 * path.stat().st_size


@pytest.mark.slow
def test_a_large_dump_takes_less_than_thrice_its_size(tmp_path: Any) -> None:
    path = tmp_path / "large"
    path.write_bytes(content(dump([entry(k) for k in range(300_000)])))
    assert peak(path, "flight_recorder", "entries") <= 3 * path.stat().st_size


def test_bombs_are_refused_for_what_they_are() -> None:
    assert "more than those of any Flight Recorder dump" in refused(START + BOMBS["lists in the memo"](48 << 20))
