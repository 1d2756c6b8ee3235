"""Whatever is given: a clear error in one line, or correct handling; never a hang, a crash or a thread left behind."""

import gzip
import io
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from kinetoscope.errors import BrokenTraceError, InputError, LimitError, NotATraceError, NotFoundError
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files import stream
from kinetoscope.readers.json import kineto, parallel
from kinetoscope.readers.json.columns import EventColumns
from kinetoscope.readers.json.kineto import load
from kinetoscope.views.exports import trace_json
from tests.conftest import DEMO
from tests.readers.texts import read_text

DEEP = 1_000_000
EVENTS = b'{"traceEvents": [' + b",".join(b'{"ph": "X", "ts": %d}' % k for k in range(1000)) + b"]}"


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kinetoscope")] == []


def _load(file: Path, content: bytes, **options: Any) -> Trace:
    file.write_bytes(content)
    return load(Source(str(file), options=SourceOptions(**options)))


def _refused(file: Path, content: bytes, error: type[InputError], words: str, **options: int) -> None:
    with pytest.raises(error, match=words) as raised:
        _load(file, content, **options)
    message = str(raised.value)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message
    assert len(message) < 400


# --- files


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"t\.json: no such file$"):
        load(Source(str(tmp_path / "t.json")))


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"this is a folder; name a file in it$"):
        load(Source(str(tmp_path)))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.touch(mode=0o000)
    with pytest.raises(NotFoundError, match=r"cannot be read: Permission denied$"):
        load(Source(str(file)))


def test_reading_fails_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(size)

    monkeypatch.setattr(stream, "open_file", lambda *_: (Failing(DEMO.read_bytes() * 9), None))
    with pytest.raises(NotFoundError, match=r"^far\.json: cannot be read: Input/output error$"):
        load(Source("far.json"))


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", NotATraceError, "an empty file"),
        (b" \n\t\n", NotATraceError, "nothing but white space"),
        (b"\0" * 100_000, NotATraceError, "nothing but zero bytes"),
        (random.Random(0).randbytes(300_000), NotATraceError, "binary data"),
        (bytes(range(256)) * 40, NotATraceError, "zero bytes|binary data"),
        (EVENTS.decode().encode("utf-16"), NotATraceError, "UTF-16"),
        (EVENTS.decode().encode("utf-16-be"), NotATraceError, "UTF-16"),
        (gzip.compress(b"", mtime=0), NotATraceError, "an empty file"),
        (gzip.compress(gzip.compress(EVENTS, mtime=0), mtime=0), NotATraceError, "compressed twice"),
        (b"\x1f\x8b", BrokenTraceError, "the compressed data ends early before any text"),
        (b"\x1f\x8b" + b"\xff" * 100, BrokenTraceError, "the compressed data is corrupt .* before any text"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 100, BrokenTraceError, "the compressed data is corrupt .* before any text"),
        (b"{}", NotATraceError, "without traceEvents"),
        (b'{"schemaVersion": 1}', NotATraceError, "without traceEvents"),
        (b'{"schemaVersion": 1', BrokenTraceError, "cut at byte 19, before its events"),
        (b'"traceEvents"', NotATraceError, "no JSON object"),
        (b'{"traceEvents": {"a": 1}}', NotATraceError, "without traceEvents"),
        (b"[1, 2, 3]", NotATraceError, "a JSON list that holds no trace events"),
        (b"trace events, honestly\n" * 100, NotATraceError, "plain text"),
        (b"{" * DEEP, BrokenTraceError, "cut at byte [0-9,]+"),
        (b"[" * DEEP, NotATraceError, "a JSON list that holds no trace events"),
        (b'{"a":' * DEEP, BrokenTraceError, "cut at byte [0-9,]+"),
        (b'{"a": "' + b"x" * DEEP, BrokenTraceError, "cut at byte [0-9,]+"),
    ],
)
def test_no_trace(tmp_path: Path, content: bytes, error: type[InputError], words: str) -> None:
    for threads in (1, 2):
        _refused(tmp_path / "t.json", content, error, words, threads=threads)


def test_empty_list_of_events(tmp_path: Path) -> None:
    for content in (b'{"traceEvents": []}', b"[ ]", b'{"traceEvents":[],"traceEvents":[]}'):
        for threads in (1, 2):
            assert len(_load(tmp_path / "t.json", content, threads=threads)) == 0


# --- nesting


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_in_an_argument(opening: bytes, closing: bytes) -> None:
    deep = opening * DEEP + b"1" + closing * DEEP
    text = b'{"traceEvents": [{"ph": "X", "args": {"deep": %s, "x": 1}}, {"ph": "X", "args": {"x": 2}}]}' % deep
    trace = read_text(text)
    assert trace.integers("x").tolist() == [1, 2]
    assert trace.event(0)["args"]["deep"] == deep.decode()  # no JSON reader takes that: it comes as its text
    assert not trace.reading


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [{"ph": "X", "args": {"x": LONG}}]}',
        '{"traceEvents": [{"ph": "X", "args": {"x": [1, {"a": -LONG}]}}]}',
        '{"traceEvents": [{"ph": "X", "ts": LONG}]}',
        '{"traceEvents": [{"ph": "X", "pid": 1, "tid": -LONG}]}',
        '{"x": LONG, "traceEvents": [{"ph": "X"}]}',
        '{"x": {"rank": 3, "a": [-LONG]}, "traceEvents": [{"ph": "X"}]}',
        '{"traceEvents": [{"ph": "X"}], "baseTimeNanoseconds": LONG}',
    ],
)
def test_an_integer_of_more_digits_than_python_converts(text: str) -> None:
    digits = "9" * 5000
    trace = read_text(text.replace("LONG", digits))
    as_text = text.replace("-LONG", f'"-{digits}"').replace("LONG", f'"{digits}"')
    assert {**trace.metadata, "traceEvents": list(trace.events())} == json.loads(as_text)
    assert trace.health["LONG_INTEGERS"] == "1 integer has more than 4,300 digits: kept as text."
    again = read_text("".join(trace_json.pieces(trace)))
    assert (again.metadata, list(again.events())) == (trace.metadata, list(trace.events()))


def test_deep_nesting_that_never_ends_costs_one_event() -> None:
    event = b'{"ph": "X", "args": {"%s": %s}}'
    events = b",\n".join(event % pair for pair in ((b"x", b"0"), (b"deep", b"%s"), (b"x", b"2")))
    text = b'{"traceEvents": [%s]}' % events
    trace = read_text(text % (b"[" * DEEP))
    assert trace.integers("x").tolist() == [0, 2]
    assert [symptom.code for symptom in trace.reading] == ["LOST"]


def test_deep_nesting_beside_the_events() -> None:
    deep = "[" * DEEP + "]" * DEEP
    trace = read_text(f'{{"before": {deep}, "traceEvents": [{{"ph": "X"}}], "after": {deep}}}')
    assert len(trace) == 1
    assert list(trace.metadata) == ["before", "after"]


# --- limits


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents": [{"ph": "X", "name": "%s"}]}',
        b'{"traceEvents": [{"ph": "X", "args": {"x": [%s]}}]}',
        b'{"traceEvents": [{"ph": "X"}], "after": "%s"}',
        b'{"before": "%s", "traceEvents": [{"ph": "X"}]}',
        b'{"%s": 1, "traceEvents": [{"ph": "X"}]}',
    ],
)
def test_one_very_long_value(tmp_path: Path, text: bytes, threads: int) -> None:
    content = text % (b"1" * (9 << 20))
    words = r"the event or value at byte \d+ is longer than 1,000,000 bytes; .* raise the limit with --max-event"
    _refused(tmp_path / "t.json", content, LimitError, words, max_event=1_000_000, threads=threads)
    assert len(_load(tmp_path / "t.json", content, max_event=20_000_000, threads=threads)) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("element", [b"{},", b"1,", b'{"ph":"X","ts":1},'])
def test_events_made_to_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, element: bytes, threads: int
) -> None:
    monkeypatch.setattr(kineto, "UNSUSPICIOUS_EVENTS", 100_000)
    content = b'{"traceEvents": [%s{}]}' % (element * 800_000)
    words = r"[0-9,]+ events in [0-9,]+ bytes of text, which no trace has; .* your own limit with --max-size"
    _refused(tmp_path / "t.json.gz", gzip.compress(content, 1), LimitError, words, threads=threads)
    assert len(_load(tmp_path / "t.json", content, max_size=1 << 30, threads=threads)) == 800_001


def test_a_limit_on_the_size(tmp_path: Path) -> None:
    words = "more than 10,000 bytes of text; .* raise the limit with --max-size"
    for content in (EVENTS, gzip.compress(EVENTS), zstd.compress(EVENTS)):
        for threads in (1, 2):
            _refused(tmp_path / "t.json", content, LimitError, words, max_size=10_000, threads=threads)


def test_a_bomb(tmp_path: Path) -> None:
    """A short file that holds a long text is stopped long before the limit on size, unless the user has set one."""
    bomb = zstd.ZstdCompressor()
    spaces = b" " * (1 << 20)
    content = bomb.compress(b'{"traceEvents": [') + b"".join(bomb.compress(spaces) for _ in range(300))
    content += bomb.compress(b"]}") + bomb.flush()
    words = r"bytes of compressed data hold more than 27\d,\d+,\d+ bytes of text, which no trace does; .* --max-size"
    _refused(tmp_path / "t.json", content, LimitError, words)
    assert len(_load(tmp_path / "t.json", content, max_size=1 << 30)) == 0


# --- threads


def test_progress_adds_up(tmp_path: Path) -> None:
    for content in (EVENTS, gzip.compress(EVENTS), zstd.compress(EVENTS)):
        (tmp_path / "t").write_bytes(content)
        told: list[int] = []
        load(Source(str(tmp_path / "t")), progress=told.append)
        assert sum(told) == len(content)


def _fail(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


def test_an_error_in_the_thread_that_inflates_surfaces() -> None:
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        load(Source(str(DEMO)), progress=_fail)


def test_an_error_in_a_thread_that_parses_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_parse", _fail)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        read_text(EVENTS, block=500, threads=2)


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_abandoned_in_the_middle(tmp_path: Path, blocks: int) -> None:
    (tmp_path / "t").write_bytes(zstd.compress(b" " * (40 << 20)))
    with stream.TextBlocks(str(tmp_path / "t")) as text:
        for _ in range(blocks):
            assert next(text)


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C while pieces are being parsed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EventColumns, "append", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_text(EVENTS, block=500, threads=2)


def test_random_bytes_inside_a_trace() -> None:
    """Whatever it makes of them: no crash, and what stands before them is there."""
    rng = random.Random(1)
    for _ in range(200):
        rubbish = rng.randbytes(rng.randrange(1, 60))
        text = (
            b'{"traceEvents": [\n{"ph": "X", "args": {"x": 1}},\n' + rubbish + b',\n{"ph": "X", "args": {"x": 2}}\n]}'
        )
        trace = read_text(text, block=rng.randrange(1, 80), threads=rng.randrange(1, 3))
        assert trace.integers("x")[0] == 1
        json.dumps(list(trace.events()))
