"""Logs of devices beside a trace: their zone, their gaps, and that their energy is that of the time of the trace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import kinetoscope
from kinetoscope.errors import NotATraceError
from kinetoscope.model.job import Job
from tests.drawn import annotation, kernel, launch, written

BASE = int(datetime(2026, 11, 20, 9, 30, tzinfo=UTC).timestamp()) * 10**9
SECOND = 1_000_000_000
HEADER = "timestamp, index, power.draw [W], clocks.current.sm [MHz], clocks_event_reasons.active"


def log(*, zone: float = 0.0, seconds: float = 4.0, step: float = 0.1, missing: range = range(0)) -> str:
    """Lines of nvidia-smi for two devices: 100 W and 300 W, from a second before the trace on."""
    lines = [HEADER]
    for place in range(int(seconds / step)):
        if place in missing:
            continue
        time = datetime.fromtimestamp(BASE / 1e9 - 1 + place * step, UTC) + timedelta(hours=zone)
        for device, watts in ((0, 100.0), (1, 300.0)):
            lines.append(
                f"{time:%Y/%m/%d %H:%M:%S.%f}"[:-3] + f", {device}, {watts:.2f} W, 1980 MHz, 0x0000000000000000"
            )
    return "\n".join(lines) + "\n"


def job(folder: Path, text: str, *, name: str = "device_log/smi.csv") -> Job:
    """A step of two seconds, of which the device works one."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    events = (annotation("ProfilerStep#1", 0, 2 * SECOND), launch(10, 10, 1), kernel("gemm", 100, SECOND, 1))
    return kinetoscope.read(written(folder / "trace.json", *events, baseTimeNanoseconds=BASE))


@pytest.mark.parametrize("zone", [0.0, 1.0, -8.0, 5.75])
def test_the_zone_is_the_one_in_which_it_has_samples(tmp_path: Path, zone: float) -> None:
    result = kinetoscope.counters(job(tmp_path, log(zone=zone)))
    rows = {(row["source"], row["counter"]): row for row in result.frame.iter_rows(named=True)}
    for device, watts in ((0, 100.0), (1, 300.0)):
        row = rows[f"GPU {device} (nvidia-smi)", "power.draw (W)"]
        assert (row["unit"], row["mean"], row["sampled_share"]) == ("W", pytest.approx(watts), pytest.approx(1.0))
        assert row["integral"] == pytest.approx(watts * row["duration"] / 1e9)
    assert rows["GPU 0 (nvidia-smi)", "power.draw (W)"]["busy_mean"] == pytest.approx(100.0)
    assert not any("reasons" in counter for _, counter in rows)
    [said] = [note for note in result.notes if note.code == "LOG_ZONE"]
    assert f"UTC {zone:+g} h." in said


def test_gaps_are_not_sampled(tmp_path: Path) -> None:
    result = kinetoscope.counters(job(tmp_path, log(missing=range(15, 20))))
    row = result.frame.filter(pl.col("counter") == "power.draw (W)").row(0, named=True)
    assert row["sampled"] == pytest.approx(row["duration"] - 0.5 * SECOND, abs=1e6)
    assert any(note.code == "NOT_SAMPLED" for note in result.notes)


def test_seconds_since_1970_need_no_zone(tmp_path: Path) -> None:
    lines = ["timestamp,gpu,socket_power,gfx_0_clk"]
    lines += [f"{BASE // SECOND + place},0,{500 + place},2100" for place in range(-1, 4)]
    result = kinetoscope.counters(job(tmp_path, "\n".join(lines)))
    assert {*result.frame["counter"]} == {"socket_power", "gfx_0_clk"}
    assert not any(note.code == "LOG_ZONE" for note in result.notes)


def test_a_log_of_another_day_is_said_to_be_apart(tmp_path: Path) -> None:
    result = kinetoscope.counters(job(tmp_path, log().replace("2026/11/20", "2026/11/25")))
    assert not result.frame.height
    assert any(note.code == "LOG_APART" for note in result.notes)


def test_what_is_no_log_is_refused_where_it_is_named(tmp_path: Path) -> None:
    job(tmp_path, "a,b\n1,2\n", name="notes.csv")
    with pytest.raises(NotATraceError, match="no log of devices"):
        kinetoscope.read(tmp_path / "trace.json", device_log=tmp_path / "notes.csv")


@pytest.mark.parametrize(
    "text", [HEADER, f"{HEADER}\n", f"{HEADER}\nsoon, 0, 1 W\n", f'{HEADER}\n"2026/11/20', f"{HEADER}\n" + "," * 9000]
)
def test_a_log_without_samples_is_one_line(tmp_path: Path, text: str) -> None:
    result = kinetoscope.counters(job(tmp_path, text))
    assert [note.code for note in result.notes if note.code.startswith("LOG")] == ["LOG_UNREADABLE"]
    assert all("\n" not in note for note in result.notes)


DCGM = """{0}#Entity   SMACT        DRAMA        POWER
{0}ID
{1}GPU 0     0.500        0.250        400.000
{1}GPU 1     N/A          N/A          80.000
{2}GPU 0     0.500        0.250        400.000
{0}#Entity   SMACT        DRAMA        POWER
{2}GPU 1     N/A          N/A          80.000
{3}GPU 0     0.500        0.250        400.000
{3}GPU 1     cut
"""


def test_text_of_dcgm_is_a_log_where_times_were_put_before_its_lines(tmp_path: Path) -> None:
    times = [f"2026-11-20 09:30:0{second}.000000 " for second in (0, 0, 1, 2)]
    result = kinetoscope.counters(job(tmp_path, DCGM.format(*times), name="device_log/dcgm.txt"))
    rows = {(row["source"], row["counter"]): row for row in result.frame.iter_rows(named=True)}
    assert rows["GPU 0 (DCGM)", "SMACT"]["mean"] == pytest.approx(0.5)
    assert rows["GPU 1 (DCGM)", "POWER"]["energy"] == pytest.approx(80 * 2, rel=0.01)
    assert ("GPU 1 (DCGM)", "SMACT") not in rows


def test_text_of_dcgm_without_times_says_how_to_get_them(tmp_path: Path) -> None:
    result = kinetoscope.counters(job(tmp_path, DCGM.format("", "", "", ""), name="device_log/dcgm.txt"))
    [note] = [note for note in result.notes if note.code == "LOG_UNREADABLE"]
    assert "dcgmi dmon -e 1002" in note


def test_devices_without_a_number_are_told_apart_by_their_place(tmp_path: Path) -> None:
    text = (
        log()
        .replace("index", "pci.bus_id")
        .replace(", 0, ", ", 00000000:18:00.0, ")
        .replace(", 1, ", ", 00000000:3E:00.0, ")
    )
    frame = kinetoscope.counters(job(tmp_path, text)).frame.filter(pl.col("counter") == "power.draw (W)")
    assert dict(zip(frame["source"], frame["mean"], strict=True)) == pytest.approx(
        {"GPU 0 (nvidia-smi)": 100.0, "GPU 1 (nvidia-smi)": 300.0}
    )


def test_a_log_with_the_gaps_of_a_real_one(tmp_path: Path) -> None:
    """A sample a second, and 4 s without one after each 10, as a public log of an RTX 4090 has."""
    lines, at = ["timestamp, name, utilization.gpu [%], power.draw [W]"], -20.0
    while at < 40:
        for _ in range(10):
            time = datetime.fromtimestamp(BASE / 1e9 + at, UTC)
            lines.append(f"{time:%Y/%m/%d %H:%M:%S.%f}"[:-3] + ", NVIDIA GeForce RTX 4090, 96 %, 300.00 W")
            at += 1.002
        at += 2.93
    (tmp_path / "device_log").mkdir()
    (tmp_path / "device_log" / "gpu_log.csv").write_text("\n".join(lines))
    events = (annotation("ProfilerStep#1", 0, 30 * SECOND), launch(10, 10, 1), kernel("gemm", 100, 29 * SECOND, 1))
    run = kinetoscope.read(written(tmp_path / "trace.json", *events, baseTimeNanoseconds=BASE))
    row = kinetoscope.counters(run).frame.filter(pl.col("counter") == "power.draw (W)").row(0, named=True)
    missing = row["duration"] - row["sampled"]
    assert 2 * 2.9 * SECOND < missing < 3 * 2.94 * SECOND
    assert row["energy"] == pytest.approx(300 * row["sampled"] / 1e9)
    assert row["interval"] == pytest.approx(1.002 * SECOND, abs=2e6)
