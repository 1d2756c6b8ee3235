from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Trace, read
from kinetoscope.views.exports import trace_json
from tests.catalog.samples import BUNDLED, SHARED, bundled, required

WHOLE = [path for path in bundled() if path.name.partition(".")[0] not in ("name_quote", "meta_newline", "class_quote")]
BROKEN = ["name_quote", "meta_newline", "class_quote"]


def trace_of(file: Path) -> Trace:
    return read(file, jobs=1).trace()


def pairs(text: str) -> Any:
    """JSON with objects as lists of pairs, so that order and repetition of keys count; NaN equal to itself."""
    return json.loads(text, object_pairs_hook=list, parse_constant=str)


def rewritten(folder: Path, text: str | bytes) -> str:
    """What a text becomes when it is read and written."""
    source, target = folder / "source.json", folder / "target.json"
    source.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    trace_json.write(trace_of(source), target)
    return target.read_text("utf-8")


def with_arguments(arguments: str) -> str:
    return f'{{"traceEvents": [{{"ph": "X", "name": "op", "ts": 1, "dur": 2, "args": {arguments}}}]}}'


# --- whole traces come back


@pytest.mark.parametrize("source", WHOLE, ids=lambda path: path.name.partition(".")[0])
def test_a_trace_comes_back_as_it_was(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "again.json.gz"
    trace_json.write(trace_of(source), target)
    assert pairs(gzip.decompress(target.read_bytes()).decode()) == pairs(gzip.decompress(source.read_bytes()).decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "mi250_train/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "trace_compare/base/base.json.gz",
        "mtia/*",
        "hostile/*",
    ],
)
def test_so_do_traces_of_other_eras_and_vendors(name: str, tmp_path: Path) -> None:
    for source in sorted(required(SHARED).glob(name)):
        packed = source.read_bytes()
        text = (gzip.decompress(packed) if source.suffix == ".gz" else packed).decode()
        target = tmp_path / "again.json"
        trace_json.write(trace_of(source), target)
        assert pairs(target.read_text()) == pairs(text)


@pytest.mark.parametrize("name", BROKEN)
def test_what_was_broken_comes_back_valid_and_for_good(name: str, tmp_path: Path) -> None:
    source = trace_of(BUNDLED / f"{name}.pt.trace.json.gz")
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    trace_json.write(source, first)
    written = json.loads(first.read_text())
    assert written["traceEvents"] == list(source.events())
    again = trace_of(first)
    assert not {"REPAIRED", "LOST", "REPAIRED_METADATA"} & {symptom.code for symptom in again.reading}
    trace_json.write(again, second)
    assert second.read_text() == first.read_text()


# --- odd values


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '[{"ph": "X"}]',
        '{"traceEvents": []}',
        '{"a": 1, "traceEvents": [], "b": [2, {"c": null}], "a": 3}',
        '{"traceEvents": [{"name": "args first", "args": {"k": 1}, "ph": "i", "s": "t", "bp": "e", "id": 7}]}',
        '{"traceEvents": [{"args": {}, "ph": "X"}, {"ph": "X", "args": null}, {"ph": "X", "args": "none"}]}',
        '{"traceEvents": [{"args": {"a": 1}, "ph": "X", "args": {"b": 2}, "ph": "i"}]}',
        '{"traceEvents": [{"pid": "Spans", "tid": "PyTorch Profiler"}, {"pid": null, "tid": 1.5}, {"pid": true}]}',
        '{"traceEvents": [{"ph": "X"}, 17, "text", null, true, [1, {"a": 2}]]}',
        '{"traceEvents": [{"ts": -1, "dur": 0}, {"ts": 1.001, "dur": 0.5}, {"ts": "12.5", "dur": "3"}, {"ts": null}]}',
        '{"traceEvents": [{"ph": 7, "cat": null, "name": {"a": []}}]}',
        with_arguments('{"a": true, "b": false, "c": null, "d": "", "": 1, "é": "ü", "\\u00e9": "\\ud83d\\ude00"}'),
        with_arguments('{"a": 1, "a": 2, "a": "3"}'),
        with_arguments('{"a": 9223372036854775807, "b": -9223372036854775808, "c": 9223372036854775808, "d": -0}'),
        with_arguments('{"a": 123456789012345678901234567890, "b": 0.1, "c": -0.0, "d": 1.7976931348623157e308}'),
        with_arguments('{"a": NaN, "b": Infinity, "c": -Infinity, "d": [NaN, {"x": Infinity}]}'),
        with_arguments('{"a": "\\ud800", "b": "x\\udfffy", "c": "\\u2028", "d": "\\"\\\\\\/\\b\\f\\n\\r\\t"}'),
        with_arguments('{"a": [[1, 2], [], {"b": {"c": [null]}}], "d": {"e": 1, "e": 2}}'),
    ],
)
def test_odd_values_come_back(text: str, tmp_path: Path) -> None:
    assert pairs(rewritten(tmp_path, text)) == pairs(text)


@pytest.mark.parametrize("number", ["1e3", "1E-7", "2.5e+10", "123456789012345678901234567890", "1e400", "-1e-400"])
def test_numbers_that_no_column_holds_keep_their_spelling(number: str, tmp_path: Path) -> None:
    assert f'"a": {number}' in rewritten(tmp_path, with_arguments(f'{{"a": {number}}}'))


@pytest.mark.parametrize("ts", ["1.0000005", "1e3", "12345678901234567890123"])
def test_times_that_no_column_holds_keep_their_spelling(ts: str, tmp_path: Path) -> None:
    assert f'"ts": {ts}' in rewritten(tmp_path, f'{{"traceEvents": [{{"ph": "X", "ts": {ts}, "dur": 1}}]}}')


def test_times_keep_their_nanoseconds_where_a_double_would_not(tmp_path: Path) -> None:
    text = '{"traceEvents": [{"ph": "X", "ts": 1712867402348628.123, "dur": 9007199254740993}]}'
    assert '"ts": 1712867402348628.123, "dur": 9007199254740993' in rewritten(tmp_path, text)


@pytest.mark.parametrize(
    ("broken", "value"),
    [
        ("nan", math.nan),
        ("-inf", -math.inf),
        ("[1, 2", "[1, 2"),
        ('"C:\\Users\\me"', "C:\\Users\\me"),
        ('"a\tb"', "a\tb"),
        ("{'a': 1}", None),
        ("N/A", "N/A"),
    ],
)
def test_what_is_broken_becomes_valid(broken: str, value: object, tmp_path: Path) -> None:
    arguments = json.loads(rewritten(tmp_path, with_arguments(f'{{"a": {broken}}}')))["traceEvents"][0]["args"]
    if value is not None:
        assert arguments["a"] == pytest.approx(value, nan_ok=True) if isinstance(value, float) else value


def test_bad_utf8_becomes_valid(tmp_path: Path) -> None:
    text = rewritten(tmp_path, with_arguments('{"a": "x?y"}').encode().replace(b"?", b"\xff"))
    assert json.loads(text)["traceEvents"][0]["args"] == {"a": "x\ufffdy"}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from([2**63, -(2**63), "\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "é", ""])
documents = st.lists(st.dictionaries(keys, values, max_size=6) | values, max_size=4)


@given(documents, st.dictionaries(st.text(max_size=4).filter(lambda key: key != "traceEvents"), values, max_size=3))
def test_any_document_comes_back(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], members: dict[str, Any]
) -> None:
    # A list that begins with anything but an event is not taken for the events: it may be metadata of that name.
    document = {**members, "traceEvents": [{"ph": "X"}, *events]}
    assert json.loads(rewritten(tmp_path_factory.getbasetemp(), json.dumps(document))) == document


# --- files


def test_the_file_is_compressed_if_its_name_says_so(tmp_path: Path) -> None:
    trace = trace_of(BUNDLED / "mlp_default.pt.trace.json.gz")
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    trace_json.write(trace, plain)
    trace_json.write(trace, packed)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.stat().st_size < plain.stat().st_size / 3


def test_the_file_appears_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(BUNDLED / "mlp_default.pt.trace.json.gz")
    target = tmp_path / "a.json"
    target.write_text("before")

    def interrupted(*_: object) -> Iterator[str]:
        yield "{"
        assert target.read_text() == "before"
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_json, "pieces", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trace_json.write(trace, target)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert target.read_text() == "before"


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trace_json.write(trace_of(BUNDLED / "mlp_default.pt.trace.json.gz"), tmp_path / "none" / "a.json")
