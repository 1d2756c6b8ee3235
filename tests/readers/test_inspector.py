"""Lines of NCCL's Inspector: collectives with their durations and bus bandwidths, of several ranks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.errors import InputError
from kinetoscope.model.trace.event_kinds import EventKind
from tests.conftest import first_quick

WRITTEN_US = 1_748_030_377_748_202
ALL_REDUCE, ALL_GATHER = 1 << 24, 1 << 20


def line(rank: int, number: int, what: str, size: int, took: float, **more: Any) -> dict[str, Any]:
    """A line as NCCL 2.28 writes it, of 4 ranks."""
    moved = size * (4 if what == "AllGather" else 1)
    return {
        "header": {"id": "0x7f8c", "rank": rank, "n_ranks": 4, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": WRITTEN_US + 1000 * number,
            "pid": 7,
        },
        "coll_perf": {
            "coll": what,
            "coll_sn": number,
            "coll_msg_size_bytes": size,
            "coll_exec_time_us": took,
            "coll_timing_source": "kernel_gpu",
            "coll_algobw_gbs": moved / took / 1e3,
            **more,
        },
    }


def written(folder: Path, lines: dict[int, list[Any]]) -> Path:
    for rank, of_rank in lines.items():
        texts = [each if isinstance(each, str) else json.dumps(each) for each in of_rank]
        (folder / f"host-pid{100 + rank}.log").write_text("\n".join(texts) + "\n")
    return folder


def job(folder: Path) -> Path:
    took = {rank: 500 - 40 * rank for rank in range(4)}
    return written(
        folder,
        {
            rank: [
                each
                for number in range(0, 20, 2)
                for each in (
                    line(rank, number, "AllReduce", ALL_REDUCE, took[rank]),
                    line(rank, number + 1, "AllGather", ALL_GATHER, took[rank]),
                )
            ]
            for rank in range(4)
        },
    )


def test_collectives_of_four_ranks_are_matched_by_their_numbers(tmp_path: Path) -> None:
    frame = kinetoscope.collectives(kinetoscope.read(job(tmp_path))).frame
    rows = {row["kind"]: row for row in frame.iter_rows(named=True)}
    for kind, size, factor in (("all_reduce", ALL_REDUCE, 1.5), ("all_gather", 4 * ALL_GATHER, 0.75)):
        row = rows[kind]
        assert (row["calls"], row["matched"], row["ranks"], row["bytes"]) == (10, 10, 4, size)
        assert row["duration"] == 10 * (500 + 460 + 420 + 380) * 1000
        assert row["transfer"] == 10 * 4 * 380 * 1000
        assert row["algorithm_bandwidth"] == pytest.approx(size / 380e-6)
        assert row["bus_bandwidth"] == pytest.approx(factor * size / 380e-6)


def test_the_last_ends_when_it_was_written_and_none_overlap(tmp_path: Path) -> None:
    of_one_time = [line(0, 0, "AllReduce", 64, 300), line(0, 0, "AllReduce", 64, 300)]
    trace = kinetoscope.read(written(tmp_path, {0: of_one_time})).trace()
    rows = trace.rows(EventKind.KERNEL)
    assert (trace.end[rows] - trace.start[rows]).tolist() == [300_000, 300_000]
    assert sorted((trace.end[rows] + trace.base).tolist()) == [1000 * (WRITTEN_US - 300), 1000 * WRITTEN_US]
    assert "NO_BEGINNINGS" in trace.health


def test_recorded_beginnings_count(tmp_path: Path) -> None:
    times = {"event_trace_ts": {"coll_start_ts": WRITTEN_US - 5000, "coll_stop_ts": WRITTEN_US - 4700}}
    trace = kinetoscope.read(written(tmp_path, {0: [line(0, 0, "AllReduce", 64, 280, **times)]})).trace()
    [row] = trace.rows(EventKind.KERNEL).tolist()
    assert trace.start[row] + trace.base == 1000 * (WRITTEN_US - 5000)
    assert "NO_BEGINNINGS" not in trace.health


def test_nothing_is_said_about_steps_or_idle_time(tmp_path: Path) -> None:
    opened = kinetoscope.read(job(tmp_path))
    assert kinetoscope.recording_kinds(opened).frame["kind"].unique().to_list() == ["collectives only"]
    assert "20 collectives, and nothing else" in str(kinetoscope.summary(opened))
    advice = kinetoscope.advise(opened)
    assert len(advice.findings) == 0
    assert "nothing else of the program" in str(advice.headline)


def test_lines_that_are_no_record_are_counted(tmp_path: Path) -> None:
    odd = ["{", '{"header": 7}', line(0, 1, "AllReduce", -5, 10), line(0, 1, "AllReduce", 5, 1e300)]
    trace = kinetoscope.read(written(tmp_path, {0: [line(0, 0, "AllReduce", 64, 300), *odd]})).trace()
    assert len(trace.rows(EventKind.KERNEL)) == 1
    assert str(trace.health["RECORDS_LEFT_OUT"]).startswith("4 records have")


@pytest.mark.parametrize("seed", first_quick(range(30)))
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    text = bytearray("\n".join(json.dumps(line(0, number, "AllReduce", 64, 300)) for number in range(20)).encode())
    for _ in range(rng.randint(1, 40)):
        text[rng.randrange(40, len(text))] = rng.randrange(256)
    file = tmp_path / "host-pid1.log"
    file.write_bytes(bytes(text))
    try:
        kinetoscope.collectives(kinetoscope.read(file))
    except InputError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said
