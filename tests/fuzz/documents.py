"""Documents from seeds: small traces, recorded and drawn, and all that may be done to them."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from backports import zstd

from tests.catalog.random_job import RandomJob
from tests.conftest import DEMO, OURS
from tests.fuzz.snapshot_documents import snapshot_document

Dice = random.Random

_HEAD, _TAIL = 70, 30  # events of a recorded trace that are taken
_DRAWN: Final = 6

_MARK: Final = "@@"
"""Around what is to stand as a bare word where JSON cannot spell it."""

_WORDS: Final = (
    *("9" * 5000, "-" + "9" * 5000, "1" * 4300, "1e999", "-1e999", "1e-999", "1e5000", "0.1e1", "-0", "-0.0", "01"),
    *("NaN", "nan", "Infinity", "-Infinity", "inf", "0x10", "1_000", "+1", ".5", "5.", "1e", "--1", "None"),
    *("18446744073709551615", "-9223372036854775808", "9223372036854775807", "9007199254740993", "1.8e308"),
    *("18446744073709551.615", "0.0000001", "123456789.123456789123456789", "1" * 400 + "." + "3" * 400),
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**18, 10**30),
    *(1.5, -0.0, 1e300, 1e-300, 1e15, "", " ", "7", "abc", "ü\u202e\ud800", "a\nb", "\x1b[31m", "=1+1", "x" * 3000),
    *("[1, 2]", "{}", "[[4, 8], [8, 2]]", [], {}, [1, [2, [3]]], {"a": {"b": None}}, [None] * 3, [[-1, 2**62]]),
    *("ProfilerStep#1", "ProfilerStep#99999999999999999999", "[memory]", "cudaGraphLaunch", "nccl:all_reduce"),
    *("Memcpy HtoD (Pageable -> Device)", "nn.Module: Net_0", "train.py(99999999999): f", "aten::mm", "X", "B", "E"),
    *("kernel", "cpu_op", "python_function", "gpu_memcpy", "cuda_runtime", "user_annotation", "cpu_instant_event"),
)
_KEYS: Final = (
    *("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp", "s", "traceEvents", "", "a\nb", "\ud800"),
    *("correlation", "External id", "device", "stream", "Input Dims", "Input type", "Concrete Inputs", "Bytes", "Addr"),
    *("Device Type", "Device Id", "Sequence number", "Call stack", "Python id", "Python parent id", "grid", "block"),
    *("Collective name", "Process Group Name", "Process Group Ranks", "Group size", "In msg nelems", "dtype", "bytes"),
    *("Fwd thread id", "Total Allocated", "est. achieved occupancy %", "blocks per SM", "finished", "labels"),
)
_TOP: Final = (
    *("schemaVersion", "baseTimeNanoseconds", "distributedInfo", "deviceProperties", "record_shapes", "traceName"),
    *("displayTimeUnit", "host_name", "trace_id", "x", "kinetoscope", "traceEvents", "with_stack"),
)
_TOKENS: Final = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"}]}", b"],", b"null"),
    *(b'{"ph"', b'"ph": "X"', b'"traceEvents": [', b" " * 40, b"1e999", b"9" * 5000, b"[" * 3000, b"/* c */", b"'a'"),
    *(b'"a\nb": 1,', b'"args": {"args": {}}', b"\\u0041", b"\\ud800", b"\\x41", b"INFO: log line\n", b"{},", b"[],"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A file: its name, its bytes, and what was done to it, for the record."""

    name: str
    content: bytes
    done: tuple[str, ...]


def document(seed: int) -> Document:
    """The document of a seed."""
    if seed % 6 == 5:
        return Document(*snapshot_document(seed))
    dice = Dice(seed)
    whole = copy.deepcopy(dice.choice(_bases()))
    done: list[str] = []
    if dice.random() < 0.7:
        for _ in range(dice.choice((1, 1, 2, 3, 8, 30))):
            change = dice.choice(_CHANGES)
            change(dice, whole)
            done.append(change.__name__.lstrip("_"))
    text = _spelled(dice, whole)
    if dice.random() < 0.45:
        for _ in range(dice.choice((1, 1, 2, 5))):
            damage = dice.choice(_DAMAGES)
            damage(dice, text)
            done.append(damage.__name__.lstrip("_"))
    pack = dice.choice(_PACKINGS) if dice.random() < 0.3 else _plain
    done.append(pack.__name__.lstrip("_"))
    content = pack(dice, bytes(text))
    ending = dice.choice((".json", ".json.gz", ".json.zst", ".pt.trace.json", "")) if dice.random() < 0.3 else ".json"
    name = dice.choice(("trace", "rank1", "host_42.1700000000000000000.pt.trace", "worker7"))
    return Document(name + ending, content, tuple(done))


@cache
def _bases() -> list[Any]:
    recorded = [_cut(json.loads(gzip.decompress(file.read_bytes()))) for file in _recorded()]
    drawn = [{"schemaVersion": 1, "traceEvents": RandomJob(seed).events[:120]} for seed in range(_DRAWN)]
    return [*recorded, *drawn, *drawn]


def _recorded() -> Iterator[Any]:
    for file in sorted([*OURS.rglob("*.pt.trace.json.gz"), DEMO]):
        try:
            json.loads(gzip.decompress(file.read_bytes()))
        except ValueError:  # one that torch wrote broken
            continue
        yield file


def _cut(whole: Any) -> Any:
    events = whole["traceEvents"]
    return {**whole, "traceEvents": events[:_HEAD] + events[-_TAIL:] if len(events) > _HEAD + _TAIL else events}


def _spelled(dice: Dice, whole: Any) -> bytearray:
    """As JSON, in one of several ways; marked words bare."""
    indent, separators = dice.choice(((None, None), (2, None), (None, (",", ":"))))
    text = json.dumps(whole, indent=indent, separators=separators, ensure_ascii=dice.random() < 0.5)
    parts = text.split(f'"{_MARK}')
    spelled = [parts[0], *(word + rest for word, _, rest in (part.partition(f'{_MARK}"') for part in parts[1:]))]
    return bytearray("".join(spelled).encode("utf-8", "surrogatepass"))


# --- the values


def _odd(dice: Dice) -> Any:
    return f"{_MARK}{dice.choice(_WORDS)}{_MARK}" if dice.random() < 0.35 else copy.deepcopy(dice.choice(_VALUES))


def _event(dice: Dice, whole: Any) -> dict[str, Any]:
    """Some event; an empty one, which is nowhere, if there is none."""
    found = [each for each in _events(whole) if isinstance(each, dict)]
    return dice.choice(found) if found else {}


def _events(whole: Any) -> list[Any]:
    events = whole.get("traceEvents") if isinstance(whole, dict) else whole
    return events if isinstance(events, list) else []


def _value(dice: Dice, whole: Any) -> None:
    event = _event(dice, whole)
    if event:
        event[dice.choice(list(event))] = _odd(dice)


def _time(dice: Dice, whole: Any) -> None:
    _event(dice, whole)[dice.choice(("ts", "dur"))] = _odd(dice)


def _argument(dice: Dice, whole: Any) -> None:
    event = _event(dice, whole)
    args = event.get("args")
    if isinstance(args, dict):
        args[dice.choice([*args, dice.choice(_KEYS)])] = _odd(dice)
    else:
        event["args"] = {dice.choice(_KEYS): _odd(dice)}


def _column(dice: Dice, whole: Any) -> None:
    """One member of all events."""
    key, value = dice.choice(_KEYS[:9]), _odd(dice)
    for event in _events(whole):
        if isinstance(event, dict) and dice.random() < 0.7:
            event[key] = value


def _shifted(dice: Dice, whole: Any) -> None:
    """The times of some events, by much."""
    by = dice.choice((1e6, 1e9, 1e12, 1.7e15, -1e12, 4e15))
    for event in _events(whole):
        if isinstance(event, dict) and isinstance(event.get("ts"), float) and dice.random() < 0.5:
            event["ts"] += by


def _top(dice: Dice, whole: Any) -> None:
    if isinstance(whole, dict):
        key, value = dice.choice(_TOP), _odd(dice)
        if key == "distributedInfo" and dice.random() < 0.5:
            value = {"rank": _odd(dice), "world_size": _odd(dice), "pg_config": _odd(dice)}
        whole[key] = value


# --- the structure


def _missing(dice: Dice, whole: Any) -> None:
    event = _event(dice, whole)
    if event:
        del event[dice.choice(list(event))]


def _renamed(dice: Dice, whole: Any) -> None:
    event = _event(dice, whole)
    if event:
        event[dice.choice(_KEYS)] = event.pop(dice.choice(list(event)))


def _events_moved(dice: Dice, whole: Any) -> None:
    events = _events(whole)
    if events:
        at, to = dice.randrange(len(events)), dice.randrange(len(events))
        what = dice.choice(("drop", "double", "swap", "shuffle", "odd", "many"))
        if what == "drop":
            del events[min(at, to) : max(at, to)]
        elif what == "double":
            events += copy.deepcopy(events[min(at, to) : max(at, to)])
        elif what == "swap":
            events[at], events[to] = events[to], events[at]
        elif what == "shuffle":
            dice.shuffle(events)
        elif what == "odd":
            events.insert(at, _odd(dice))
        else:
            events += [copy.deepcopy(events[at]) for _ in range(300)]


def _members_moved(dice: Dice, whole: Any) -> None:
    if isinstance(whole, dict):
        items = list(whole.items())
        dice.shuffle(items)
        whole.clear()
        whole.update(items)


def _unclosed(dice: Dice, whole: Any) -> None:
    """Spans as pairs of a beginning and an end, of which some lack one."""
    events = _events(whole)
    for event in list(events):
        if isinstance(event, dict) and event.get("ph") == "X" and isinstance(event.get("ts"), float):
            duration = event.pop("dur", 0)
            event["ph"] = "B"
            if isinstance(duration, float) and dice.random() < 0.8:
                events.append({**event, "ph": "E", "ts": event["ts"] + duration})


_CHANGES: Final[tuple[Callable[[Dice, Any], None], ...]] = (
    *(_value, _value, _time, _time, _argument, _argument, _argument, _column, _shifted, _top, _top),
    *(_missing, _renamed, _events_moved, _events_moved, _members_moved, _unclosed),
)


# --- the text


def _place(dice: Dice, text: bytearray) -> int:
    return dice.randrange(len(text) + 1)


def _range(dice: Dice, text: bytearray) -> slice:
    at = _place(dice, text)
    return slice(at, at + dice.choice((1, 2, 10, 100, 1000, 10_000)))


def _bytes(dice: Dice, text: bytearray) -> None:
    for _ in range(dice.choice((1, 5, 50))):
        if text:
            text[dice.randrange(len(text))] = dice.randrange(256)


def _deleted(dice: Dice, text: bytearray) -> None:
    del text[_range(dice, text)]


def _doubled(dice: Dice, text: bytearray) -> None:
    piece = text[_range(dice, text)]
    at = _place(dice, text)
    text[at:at] = piece


def _inserted(dice: Dice, text: bytearray) -> None:
    for _ in range(dice.choice((1, 1, 5))):
        at = _place(dice, text)
        text[at:at] = dice.choice(_TOKENS)


def _digits(dice: Dice, text: bytearray) -> None:
    """Other digits where some are."""
    for at in [at for at in range(len(text)) if 48 <= text[at] <= 57 and dice.random() < 0.02]:
        text[at] = dice.randrange(48, 58)


def _cut_off(dice: Dice, text: bytearray) -> None:
    del text[_place(dice, text) :]


def _zeroed(dice: Dice, text: bytearray) -> None:
    where = _range(dice, text)
    text[where] = bytes(len(text[where]))


_DAMAGES: Final[tuple[Callable[[Dice, bytearray], None], ...]] = (
    *(_bytes, _deleted, _doubled, _inserted, _inserted, _digits, _cut_off, _zeroed),
)


# --- the packing


def _plain(dice: Dice, text: bytes) -> bytes:
    return text


def _gz(dice: Dice, text: bytes) -> bytes:
    return gzip.compress(text, 1, mtime=0)


def _zst(dice: Dice, text: bytes) -> bytes:
    return bytes(zstd.compress(text))


def _members_of_gz(dice: Dice, text: bytes) -> bytes:
    size = max(len(text) // dice.choice((1, 2, 7)), 1)
    return b"".join(gzip.compress(text[at : at + size], 1, mtime=0) for at in range(0, len(text), size))


def _packed_twice(dice: Dice, text: bytes) -> bytes:
    return _gz(dice, dice.choice((_gz, _zst))(dice, text))


def _packed_and_damaged(dice: Dice, text: bytes) -> bytes:
    data = bytearray(dice.choice((_gz, _zst, _members_of_gz))(dice, text))
    dice.choice((_bytes, _deleted, _doubled, _inserted, _cut_off, _zeroed))(dice, data)
    return bytes(data)


def _packed_and_more(dice: Dice, text: bytes) -> bytes:
    return dice.choice((_gz, _zst))(dice, text) + dice.choice((b"\0" * 512, b"rubbish", text[:100], _gz(dice, b"[]")))


_PACKINGS: Final[tuple[Callable[[Dice, bytes], bytes], ...]] = (
    *(_gz, _zst, _members_of_gz, _packed_twice, _packed_and_damaged, _packed_and_damaged, _packed_and_more),
)
