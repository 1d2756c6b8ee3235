from __future__ import annotations

import json
import math
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from kinetoscope import Trace, read
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.shapes import FALSE, FLOAT, INT, NULL, NUMBER_TEXT, RAW, STRING
from tests import drawn

ARGUMENTS = [
    '{"n": 3, "text": "a", "list": [1, 2]}',
    '{"n": 2.5, "text": null}',
    '{"n": "7", "text": false}',
    '{"n": NaN}',
    '{"n": 1e3}',
    '{"n": 123456789012345678901234567890}',
    "{}",
]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """One operator for each of ARGUMENTS, and one event without arguments; the text is written out, not dumped."""
    events = [
        f'{{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {args}}}'
        for args in ARGUMENTS
    ]
    events.append('{"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 2}')
    file = tmp_path / "arguments.json"
    file.write_text('{"baseTimeNanoseconds": 1700000000000000000, "traceEvents": [' + ",\n".join(events) + "]}")
    return read(file, jobs=1).trace()


def test_a_number_is_a_column_of_integers_or_of_floats(trace: Trace) -> None:
    assert trace.integers("n").tolist() == [3, -1, -1, -1, -1, -1, -1, -1]
    assert trace.integers("n", missing=0)[-1] == 0
    assert trace.floats("n").tolist() == pytest.approx(
        [3, 2.5, math.nan, math.nan, 1000, 123456789012345678901234567890, math.nan, math.nan], nan_ok=True
    )


def test_an_integer_beyond_all_floats_is_infinite(tmp_path: Path) -> None:
    huge = drawn.op("op", 0, 1, n=10**400), drawn.op("op", 0, 1, n=-(10**400))
    assert drawn.job(tmp_path, *huge).trace().floats("n").tolist() == [math.inf, -math.inf]


def test_text_is_a_column_of_codes(trace: Trace) -> None:
    codes = trace.codes_of("text")
    assert [trace.strings.label(int(code)) for code in codes] == ["a", *[""] * 7]
    assert trace.strings.nested(int(trace.codes_of("list")[0])) == [1, 2]


def test_each_value_says_of_which_kind_it_is(trace: Trace) -> None:
    assert trace.kinds_of("n").tolist() == [INT, FLOAT, STRING, NUMBER_TEXT, NUMBER_TEXT, NUMBER_TEXT, -1, -1]
    assert trace.kinds_of("text").tolist() == [STRING, NULL, FALSE, -1, -1, -1, -1, -1]
    assert trace.kinds_of("list").tolist() == [RAW, *[-1] * 7]


def test_columns_can_be_had_of_some_rows(trace: Trace) -> None:
    rows = np.array([4, 0], np.int32)
    assert trace.integers("n", rows).tolist() == [-1, 3]
    assert trace.floats("n", rows).tolist() == [1000, 3]
    assert trace.kinds_of("n", rows).tolist() == [NUMBER_TEXT, INT]


def test_an_argument_that_no_event_has_is_missing_everywhere(trace: Trace) -> None:
    assert trace.integers("none").tolist() == [-1] * 8
    assert np.isnan(trace.floats("none")).all()
    assert trace.codes_of("none").tolist() == trace.kinds_of("none").tolist() == [-1] * 8


def test_rows_are_chosen_by_kind(trace: Trace) -> None:
    assert trace.rows(EventKind.HOST_OP).tolist() == list(range(7))
    assert trace.rows(EventKind.INSTANT, EventKind.KERNEL).tolist() == [7]


def test_the_base_of_time_is_what_the_file_says(trace: Trace, tmp_path: Path) -> None:
    assert trace.base == 1_700_000_000_000_000_000
    assert drawn.job(tmp_path, baseTimeNanoseconds="soon").trace().base == 0
    assert drawn.job(tmp_path).trace().base == 0


def test_metadata_is_decoded_and_of_a_repeated_key_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "metadata.json"
    file.write_text('{"a": 1, "traceEvents": [], "a": {"b": [null]}, "c": "é"}')
    assert read(file, jobs=1).trace().metadata == {"a": {"b": [None]}, "c": "é"}


def test_events_come_back_as_json_would_give_them(trace: Trace) -> None:
    assert [event.get("args") for event in trace.events()][:3] == [json.loads(args) for args in ARGUMENTS[:3]]


# --- what follows from it


def test_what_was_derived_is_computed_once_until_it_is_forgotten(trace: Trace) -> None:
    first = steps(trace)
    assert steps(trace) is first
    assert steps(trace, "op") is not first
    trace.forget()
    assert steps(trace) is not first


def test_threads_that_ask_at_once_get_the_same_answer(trace: Trace) -> None:
    answers: list[object] = []
    asked = threading.Barrier(4)
    runs: list[None] = []

    def slow(_: Trace) -> object:
        runs.append(None)
        return object()

    def ask() -> None:
        asked.wait(10)
        answers.append(trace.of(slow))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, answers))) == len(runs) == 1


def test_a_question_is_the_same_however_it_is_written(trace: Trace) -> None:
    asked = []

    @derived
    def counted(of: Trace, by: str = "step", deep: bool = False, *, least: int = 0) -> object:
        asked.append((by, deep, least))
        return object()

    answer = counted(trace)
    assert counted(trace, "step") is counted(trace, by="step", deep=False) is counted(trace, least=0) is answer
    assert counted(trace, "step", True) is counted(trace, deep=True) is not answer
    assert asked == [("step", False, 0), ("step", True, 0)]


def test_columns_and_what_was_derived_cannot_be_changed(trace: Trace) -> None:
    for array in (trace.start, trace.name, trace.values, trace.first, trace.kind, steps(trace).number):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_trace_refuses_pickling_and_says_what_to_send(trace: Trace) -> None:
    with pytest.raises(TypeError, match="send its Source"):
        pickle.dumps(trace)
    assert pickle.loads(pickle.dumps(trace.source)) == trace.source


def test_it_says_what_it_is_and_how_large(trace: Trace) -> None:
    assert repr(trace) == "Trace(arguments.json, rank 0, 8 events)"
    assert trace.nbytes > trace.start.nbytes * 3
    assert trace.text_bytes == Path(trace.source.url).stat().st_size
