"""Files that are no Kineto trace are told apart; whatever may be one is left to the reader."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.readers.json.sniff import other_format
from kinetoscope.readers.reader import HEAD_BYTES
from tests.catalog.samples import required

SHARED = Path(__file__).resolve().parents[4] / "shared" / "traces"
EVENT = b'{"ph": "X", "name": "aten::add", "ts": 1, "dur": 2, "pid": 3, "tid": 4}'


def _zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"x" * 10)
    return file.getvalue()


def _tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.json"))
    return file.getvalue()


def _database(table: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE {table} (id INTEGER)")
    content = connection.serialize()
    connection.close()
    return content


SAMPLES: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b" \n\n", "white space"),
    (b"\0" * 5000, "zero bytes"),
    (gzip.compress(b"{}"), "twice"),
    (b"\x28\xb5\x2f\xfd\x04\x00", "twice"),
    (bz2.compress(b"{}"), "bzip2"),
    (lzma.compress(b"{}"), "xz"),
    (_tarred(), "tar archive"),
    (_zipped("trace.json"), "zip archive"),
    (_zipped("archive/data.pkl", "archive/version"), "checkpoint"),
    (_zipped("model/data.pkl", "model/byteorder"), "checkpoint"),
    (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "checkpoint"),
    (pickle.dumps([1, 2, 3]), "pickle"),
    (_database("CUPTI_ACTIVITY_KIND_KERNEL"), "Nsight Systems"),
    (_database("rocpd_kernelapi"), "rocprofv3"),
    (_database("something"), "SQLite"),
    (b"\x7fELF\x02\x01\x01" + b"\0" * 9, "ELF"),
    (b"\x0a\x90\x4e\x08\x01\x12\x09/host:CPU" + b"\0" * 50, "XPlane"),
    (b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\xc0\x1a\x0d\xbc\xd9\x41\x1a\x0dbrain.Event:2", "TensorBoard"),
    (bytes(range(256)), "binary data"),
    ("{}".encode("utf-16"), "UTF-16"),
    ('{"schemaVersion": 1}'.encode("utf-16-le"), "UTF-16"),
    (b'{\n  "schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [\n {"id": 1', "execution trace"),
    (b'{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1', "rocprofv3"),
    (b'{ "traceEvents":[{}\n,{"args":{"name":"0 CPU HIP API"},"ph":"M","pid":2,"name":"process_name"}', "rocprof"),
    (b'{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"', "cpuprofile"),
    (b'{"metadata":{"source":"DevTools"},"traceEvents":[{"args":{}', "DevTools"),
    (b'{"traceEvents":[{"args":{"name":"CrRendererMain"},"cat":"__metadata"', "DevTools"),
    (b'{"version":"0.0.1","$schema":"https://www.speedscope.app/file-format-schema.json","shared"', "Speedscope"),
    (b'{"cells": [{"cell_type": "code"}], "metadata": {', "Jupyter"),
    (b'{"loss": 1.5, "step": 3}', "loss, step"),
    (b'{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}', "a, b, c, d, e, …"),
    (b'[{"name": "a", "value": 1}, {"na', "holds no trace events"),
    (b"[1, 2, 3]", "holds no trace events"),
    (b'{"a": 1}\n{"a": 2}\n', "JSON lines"),
    (EVENT + b"\n" + EVENT + b"\n", "jq -s"),
    (b"<!DOCTYPE html><html><body>Sign in", "HTML"),
    (b"<?xml version='1.0'?><Error><Code>AccessDenied", "XML"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n", "git lfs pull"),
    (b"train.py(3): main;model.py(8): forward 1234\n", "folded stacks"),
    (b"-------  ------------\n   Name    Self CPU %   Self CPU\n", "key_averages"),
    (b"step 1 loss 2.5\n", "plain text"),
]


@pytest.mark.parametrize(("head", "expected"), SAMPLES, ids=[expected for _, expected in SAMPLES])
def test_other_formats_are_named_with_a_hint(head: bytes, expected: str) -> None:
    found = other_format(head)
    assert found is not None
    assert expected in f"{found.name}; {found.hint}"
    assert found.hint


@pytest.mark.parametrize(
    "head",
    [
        b'{\n  "schemaVersion": 1,\n  "deviceProperties": [',
        b'\n{"traceEvents": [' + EVENT + b"]}",
        b'{"metadata": {"source": "DevTools"}, "schemaVersion": 1, "traceEvents": [' + EVENT,
        b"[" + EVENT + b"]",
        b"[]",
        b"[",
        b"{",
        b'\xef\xbb\xbf{"schemaVersion": 1,',
        b'{"schemaVersion": 1,\0\x01 "k": "\xff',
        b'{"k"ey": "v", "k": not json,\n',
        b'INFO: started\n{"schemaVersion": 1, "traceEvents": [',
        b"rubbish\n" + EVENT,
        json.dumps({"metadata": {"note": "x" * (2 * HEAD_BYTES)}, "traceEvents": []}).encode(),
    ],
)
def test_what_may_be_a_trace_is_left_to_the_reader(head: bytes) -> None:
    assert other_format(head) is None


@given(st.binary(max_size=300) | st.text(alphabet='{}[]":,\\ \n1aphtrceEvns', max_size=300).map(str.encode))
def test_arbitrary_bytes_never_raise_and_a_hint_comes_with_every_claim(head: bytes) -> None:
    found = other_format(head)
    assert found is None or (found.name and found.hint)


@pytest.mark.parametrize("unit", [b'{"a":', b'"', b'\\"', b"a;", b" 1", b"[", b"\n", b"{", b'"source" ', b"\x0a\x80"])
def test_repetitive_heads_take_no_time(unit: bytes) -> None:
    for start in (b"", b'{"', b"[", b"x;"):
        other_format(start + unit * HEAD_BYTES)


def test_of_the_real_traces_only_the_two_others_are_refused() -> None:
    required(SHARED)
    refused = {}
    for path in sorted(SHARED.rglob("*.*")):
        if path.suffix in (".gz", ".json"):
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                found = other_format(file.read(HEAD_BYTES))
            if found is not None:
                refused[path.name] = found.name
    assert refused.keys() == {"benchmark_simple_add_et.json.gz", "memory_timeline.raw.gz"}
    assert "execution trace" in refused["benchmark_simple_add_et.json.gz"]
    assert "JSON list" in refused["memory_timeline.raw.gz"]
