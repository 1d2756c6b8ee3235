"""The check that a trace passes before it gets its final name, against Python's own reader of JSON."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.record.output import finishing
from kinetoscope.record.output.finishing_process import FinishingProcess
from kinetoscope.record.output.validate_json import InvalidError, TraceChecker, repaired, texts

_EVENT = '{\n    "ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1,\n    "ts": 1.5, "dur": 2.0\n  }'
_WHOLE = '{"schemaVersion": 1, "traceEvents": [\n  EVENT,\n  EVENT\n  ],"traceName": "/a/b"}'.replace("EVENT", _EVENT)


def _checked(text: str, size: int = 7) -> str:
    checker = TraceChecker("x.json", {"truncated": ""})
    data = text.encode()
    pieces = texts(data[at : at + size] for at in range(0, len(data), size))
    return "".join(checker.feed(piece) for piece in pieces) + checker.finish()


def _refused(text: str, size: int) -> bool:
    try:
        _checked(text, size)
    except InvalidError:
        return True
    return False


@given(st.integers(1, 400))
def test_a_valid_trace_keeps_its_events_however_it_is_cut(size: int) -> None:
    found = json.loads(_checked(_WHOLE, size))
    assert found["traceEvents"] == [json.loads(_EVENT)] * 2
    assert (found["traceName"], found["kinetoscope"]) == ("x.json", {"truncated": ""})


@given(
    st.integers(0, len(_WHOLE) - 1),
    st.sampled_from(['"', "\\", "{", "}", "]", ",", "é", "\t", ":", "x", ""]),
    st.integers(1, 99),
)
def test_it_refuses_exactly_what_is_no_json(at: int, put: str, size: int) -> None:
    text = _WHOLE[:at] + put + _WHOLE[at + 1 :]
    try:
        document: Any = json.loads(text)
        valid = isinstance(document, dict) and isinstance(document.get("traceEvents"), list)
    except ValueError:
        valid = False
    if valid:
        assert json.loads(_checked(text, size))["traceEvents"] == document["traceEvents"]
    elif not _refused(text, size):
        # Only what follows the events may be mended: there stands a path that torch does not escape.
        assert at > text.rindex("]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        _WHOLE[:-1].replace("1.5", "NaN", 1) + "}",
        _WHOLE.replace("2.0", "inf", 1),
        _WHOLE.replace('"schemaVersion": 1', '"traceEvents": []', 1),
        _WHOLE.replace('"schemaVersion"', '"a"b"', 1),
        _WHOLE.replace(_EVENT, "1", 1),
        _WHOLE[: len(_WHOLE) // 2],
        _WHOLE.replace(",\n  {", ",\n  ,{", 1),
        _WHOLE.replace("\n  ],", ",\n  ],", 1),
    ],
)
def test_what_torch_and_accidents_make_of_a_trace_is_refused(text: str) -> None:
    assert _refused(text, 11)


def test_a_trace_without_a_rank_is_given_one() -> None:
    given = {"rank": 3, "world_size": 8}
    checker = TraceChecker("x", {}, given)
    assert json.loads(checker.feed(_WHOLE) + checker.finish())["distributedInfo"] == given
    checker = TraceChecker("x", {}, given)
    said = _WHOLE.replace("{", '{"distributedInfo": {"rank": 1},', 1)
    assert json.loads(checker.feed(said) + checker.finish())["distributedInfo"] == {"rank": 1}


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidError):
        list(texts([b"\xff"]))


def test_what_can_be_kept_is_kept() -> None:
    broken = _WHOLE.replace("aten::add", 'say "hi"', 1).replace('"schemaVersion"', '"k": no, "schemaVersion"')
    broken = broken.replace("\n  ],", ',\n  {\n    "ph": gone\n  }\n  ],')
    lost = [0]
    found = json.loads(_checked("".join(repaired([broken], lost))))
    assert ([each["name"] for each in found["traceEvents"]], lost) == (['say "hi"', "aten::add"], [1])
    assert found["schemaVersion"] == 1


def test_the_name_is_ours_wherever_torch_puts_its_own() -> None:
    later = _WHOLE.replace('"traceName": "/a/b"', '"traceName": "/a \\"b", "displayTimeUnit": "ms"')
    for text in (_WHOLE, later, _WHOLE.replace(',"traceName": "/a/b"', "")):
        found = json.loads(_checked(text))
        assert found["traceName"] == "x.json"
        assert ("displayTimeUnit" in found) == (text is later)


def _task(tmp_path: Path, text: str, **more: Any) -> dict[str, Any]:
    tmp_path.mkdir(exist_ok=True)
    plain = tmp_path / "x.part"
    plain.write_text(text)
    target, meta_target = str(tmp_path / "x.json.gz"), str(tmp_path / "x.meta.json")
    task = {"plain": str(plain), "target": target, "facts": {}, "meta": {"a": 1}, "meta_target": meta_target}
    return {**task, "keep_free": 0, "repair": False, **more}


def test_a_trace_and_its_sidecar_get_their_names_together(tmp_path: Path) -> None:
    answer = finishing.finish(_task(tmp_path, _WHOLE))
    assert (answer["status"], answer["events"]) == ("ok", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json.gz", "x.meta.json", "x.part"]
    assert json.loads(gzip.decompress((tmp_path / "x.json.gz").read_bytes()))["traceEvents"]
    assert json.loads((tmp_path / "x.meta.json").read_text())["events"] == 2


@pytest.mark.parametrize(
    ("text", "more", "status", "left"),
    [
        (_WHOLE + "x", {}, "ok", ["x.json.gz", "x.meta.json", "x.part"]),
        (_WHOLE.replace("aten", 'a"'), {}, "invalid", ["x.part"]),
        (_WHOLE, {"keep_free": 1 << 60}, "full", []),
        (_WHOLE, {"target": "/nowhere/at/all/x.json.gz"}, "failed", ["x.part"]),
    ],
)
def test_what_fails_leaves_no_final_name(
    tmp_path: Path, text: str, more: dict[str, Any], status: str, left: list[str]
) -> None:
    if status == "ok":
        text = text.removesuffix("x")
    assert finishing.finish(_task(tmp_path, text, **more))["status"] == status
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_it_goes_to_stores(tmp_path: Path) -> None:
    import fsspec

    where = f"memory://{tmp_path.name}/x.json.gz"
    task = _task(tmp_path, _WHOLE, target=where, meta_target=where.replace(".json.gz", ".meta.json"))
    assert finishing.finish(task)["status"] == "ok"
    store = fsspec.filesystem("memory")
    assert json.loads(gzip.decompress(store.cat(where)))["traceEvents"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.part"]


@pytest.mark.slow
def test_what_waits_is_not_kept_waiting_by_a_process_that_gets_no_time(tmp_path: Path) -> None:
    apart, answers = FinishingProcess(), []
    os.mkfifo(tmp_path / "x.part")  # the first process waits for it for ever
    task = {**_task(tmp_path / "other", ""), "plain": str(tmp_path / "x.part"), "path": []}
    thread = threading.Thread(target=lambda: answers.append(apart.finish(task)))
    thread.start()
    time.sleep(1)
    assert not answers
    (tmp_path / "x.part").unlink()
    (tmp_path / "x.part").write_text(_WHOLE)
    with apart.hurried():
        thread.join(60)
    assert [answer["status"] for answer in answers] == ["ok"]
    assert (tmp_path / "other" / "x.json.gz").exists()
