"""Throttling: clocks of steps, reasons, what it costs at most, and the finding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules.low_clock import low_clock
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from tests.drawn import annotation, kernel, launch, op, written

SECOND = 1_000_000_000
BASE = int(datetime(2026, 11, 20, 9, 30, tzinfo=UTC).timestamp()) * 10**9
STEPS, LENGTH = 10, SECOND // 5


def throttled(folder: Path, *, low: range = range(6, 8), clock: int = 1400, reasons: str = "active") -> Job:
    """Ten steps of 0.2 s, of which the device works three quarters, at 1980 MHz, in two of them lower."""
    lines = [f"timestamp, index, clocks.current.sm [MHz], power.draw [W], clocks_event_reasons.{reasons}"]
    for place in range(STEPS * 20):
        time = datetime.fromtimestamp(BASE / 1e9, UTC) + timedelta(milliseconds=10 * place)
        step, within = divmod(place, 20)
        is_low = step in low and within < 15
        flag = (
            {"active": "0x0000000000000004", "sw_power_cap": "Active"} if is_low else {"active": "0x0000000000000001"}
        )
        cells = (clock if is_low else 1980 if within < 15 else 345, 700 if within < 15 else 90)
        lines.append(
            f"{time:%Y/%m/%d %H:%M:%S.%f}"[:-3]
            + f", 0, {cells[0]} MHz, {cells[1]} W, {flag.get(reasons, 'Not Active')}"
        )
    (folder / "device_log").mkdir(exist_ok=True)
    (folder / "device_log" / "smi.csv").write_text("\n".join(lines))
    events = []
    for step in range(STEPS):
        at = step * LENGTH
        events += [
            annotation(f"ProfilerStep#{step}", at, LENGTH),
            op("aten::mm", at + 10, 100),
            launch(at + 20, 10, step + 1),
            kernel("gemm", at + 100, LENGTH * 3 // 4 - 100, step + 1),
            launch(at + 200, LENGTH * 3 // 4 - 190, 100 + step, name="cudaDeviceSynchronize"),
        ]
    return kinetoscope.read(written(folder / "trace.json", *events, baseTimeNanoseconds=BASE))


@pytest.mark.parametrize("reasons", ["active", "sw_power_cap"])
def test_steps_below_the_usual_clock_and_why(tmp_path: Path, reasons: str) -> None:
    frame = kinetoscope.throttling(throttled(tmp_path, reasons=reasons)).frame
    rows = {row["step"]: row for row in frame.iter_rows(named=True)}
    assert {row["usual_clock"] for row in rows.values()} == {1980.0}
    for step, row in rows.items():
        low = step in (6, 7)
        assert row["clock"] == pytest.approx(1400 if low else 1980)
        assert row["lost"] == pytest.approx(row["busy"] * (1 - 1400 / 1980) if low else 0, abs=2)
        assert (row["reasons"], row["power"]) == ("sw_power_cap" if low else None, pytest.approx(700))


def test_a_clock_that_falls_is_a_finding_of_which_nothing_is_sure(tmp_path: Path) -> None:
    [finding] = low_clock(RankView(throttled(tmp_path).trace(), ALL))
    assert "In 2 of 10 steps" in finding.message
    assert "1400 MHz (71%), limited by `sw_power_cap`" in finding.message
    assert (finding.confidence, finding.stake.low) == ("medium", 0)
    lost = 2 * (LENGTH * 3 // 4) * (1 - 1400 / 1980) / STEPS
    assert lost <= finding.stake.high <= 1.5 * lost  # of few and uneven steps, a margin is on top


@pytest.mark.parametrize(("low", "clock"), [(range(0), 1400), (range(6, 8), 1950)])
def test_a_steady_clock_is_none(tmp_path: Path, low: range, clock: int) -> None:
    assert list(low_clock(RankView(throttled(tmp_path, low=low, clock=clock).trace(), ALL))) == []


def test_without_a_clock_there_is_no_row_and_a_note(tmp_path: Path) -> None:
    job = kinetoscope.read(written(tmp_path / "trace.json", op("aten::mm", 0, 10)))
    result = kinetoscope.throttling(job)
    assert not result.frame.height
    assert [note.code for note in result.notes] == ["NO_CLOCK"]
