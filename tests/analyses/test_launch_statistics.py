from __future__ import annotations

from pathlib import Path

from kinetoscope import Selection, launch_statistics
from tests import drawn

EVENTS = [
    drawn.launch(0, 10, 1),
    drawn.kernel("a", 15, 4, 1),  # delay 5, short by 6
    drawn.launch(20, 70, 2),
    drawn.kernel("b", 300, 100, 2),  # delay 210
    drawn.launch(100, 40, 3),  # its work was not recorded
    drawn.launch(200, 31, 4, name="hipModuleLaunchKernel"),
    drawn.kernel("c", 400, 30, 4, stream=8),  # delay 169, short by 1
]


def test_numbers_of_each_name_and_of_all(tmp_path: Path) -> None:
    frame = launch_statistics(drawn.job(tmp_path, *EVENTS), slow_call=39, long_delay=169).frame
    assert frame.drop("rank").rows(named=True) == [
        {
            "name": "(all)",
            "calls": 4,
            "total": 151,
            "mean": 38,
            "median": 36,
            "p99": 70,
            "max": 70,
            "delay_mean": 128,
            "delay_median": 169,
            "delay_p99": 210,
            "delay_max": 210,
            "short_kernels": 2,
            "short_excess": 7,
            "slow_calls": 2,
            "slow_excess": 32,
            "long_delays": 1,
        },
        {
            "name": "cudaLaunchKernel",
            "calls": 3,
            "total": 120,
            "mean": 40,
            "median": 40,
            "p99": 70,
            "max": 70,
            "delay_mean": 108,
            "delay_median": 108,
            "delay_p99": 210,
            "delay_max": 210,
            "short_kernels": 1,
            "short_excess": 6,
            "slow_calls": 2,
            "slow_excess": 32,
            "long_delays": 1,
        },
        {
            "name": "hipModuleLaunchKernel",
            "calls": 1,
            "total": 31,
            **dict.fromkeys(("mean", "median", "p99", "max"), 31),
            **dict.fromkeys(("delay_mean", "delay_median", "delay_p99", "delay_max"), 169),
            "short_kernels": 1,
            "short_excess": 1,
            "slow_calls": 0,
            "slow_excess": 0,
            "long_delays": 0,
        },
    ]


def test_delays_that_are_not_known_are_null(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *EVENTS)
    rows = launch_statistics(job, select=Selection(time=(100, 150))).frame.rows(named=True)
    assert [(row["calls"], row["delay_mean"], row["delay_max"], row["long_delays"]) for row in rows] == [
        (1, None, None, None)
    ] * 2


def test_without_launches_there_are_no_rows(tmp_path: Path) -> None:
    nothing = launch_statistics(drawn.job(tmp_path, *EVENTS), select=Selection(time=(500, 600)))
    assert nothing.notes[-1].code == "NO_LAUNCHES_SELECTED"


def test_what_is_waiting_of_it_is_said(tmp_path: Path) -> None:
    copy = drawn.kernel("Memcpy HtoD (Host -> Device)", 4_999_000, 1000, 1, category="gpu_memcpy")
    events = [drawn.launch(0, 5_000_000, 1, name="hipMemcpyWithStream"), copy, drawn.launch(5_000_000, 5, 2)]
    note = "In 1 of 2 calls the host waits for a copy: of their 5 ms all but some µs are waiting, see synchronizations."
    assert note in launch_statistics(drawn.job(tmp_path, *events)).notes
