"""What blocks of memory were for."""

from __future__ import annotations

from pathlib import Path

from kinetoscope import memory_events, memory_peak
from tests import drawn
from tests.drawn import annotation, memory, op, python

STEP = (
    annotation("ProfilerStep#1", 0, 1000),
    python("nn.Module: Linear_0", 90, 60),
    python("nn.Module: Linear_1", 160, 60),
    op("aten::linear", 100, 40),
    op("aten::linear", 170, 40),
    op("autograd::engine::evaluate_function: AddmmBackward0", 300, 100, tid=2),
    annotation("Optimizer.step#Adam.step", 500, 200),
)
TAKEN = (
    memory(110, 100, Addr=1, **{"Total Allocated": 1100}),  # freed in the backward pass
    memory(120, 10, Addr=2, **{"Total Allocated": 1110}),
    memory(130, -10, Addr=2, **{"Total Allocated": 1100}),
    memory(180, 100, Addr=3, **{"Total Allocated": 1200}),
    memory(310, 50, Addr=4, tid=2, **{"Total Allocated": 1250}),  # freed after it
    memory(320, 7, Addr=5, tid=2, **{"Total Allocated": 1257}),
    memory(330, -7, Addr=5, tid=2, **{"Total Allocated": 1250}),
    memory(340, -100, Addr=1, tid=2, **{"Total Allocated": 1150}),
    memory(350, -100, Addr=3, tid=2, **{"Total Allocated": 1050}),
    memory(510, 30, Addr=6, **{"Total Allocated": 1080}),
    memory(520, 3, Addr=7, **{"Total Allocated": 1083}),
    memory(530, -3, Addr=7, **{"Total Allocated": 1080}),
    memory(800, -50, Addr=4, **{"Total Allocated": 1030}),
    memory(900, 1, Addr=8, **{"Total Allocated": 1031}),
)


def test_the_pass_that_takes_and_the_one_that_gives_back_tell(tmp_path: Path) -> None:
    frame = memory_events(drawn.job(tmp_path, *STEP, *TAKEN)).frame
    found = sorted(frame.select("size", "use").rows())
    assert found == [
        (1, "unknown"),
        (3, "temporary"),
        (7, "temporary"),
        (10, "temporary"),
        (30, "optimizer state"),
        (50, "gradient"),
        (100, "activation"),
        (100, "activation"),
    ]


def test_what_a_closure_takes_is_no_state(tmp_path: Path) -> None:
    closed = (*STEP[:-1], annotation("Optimizer.step#Adam.step", 95, 605))
    assert _uses(tmp_path / "closed", closed) == _uses(tmp_path / "plain", STEP)


def _uses(folder: Path, step: tuple[drawn.Event, ...]) -> list[tuple[int, str]]:
    folder.mkdir()
    return sorted(memory_events(drawn.job(folder, *step, *TAKEN)).frame.select("size", "use").rows())


def test_modules_of_a_class_are_one_row(tmp_path: Path) -> None:
    frame = memory_peak(drawn.job(tmp_path, *STEP, *TAKEN), group_by="class").frame
    rows = frame.select("name", "kind", "modules", "use", "blocks", "size").rows()
    assert rows == [
        ("[before the recording]", "before", None, "unknown", None, 1000),
        ("Linear", "module", 2, "activation", 2, 200),
        ("autograd::engine::evaluate_function: AddmmBackward0", "operator", None, "gradient", 1, 50),
        ("autograd::engine::evaluate_function: AddmmBackward0", "operator", None, "temporary", 1, 7),
    ]
    by_call = memory_peak(drawn.job(tmp_path, *STEP, *TAKEN)).frame
    assert by_call.get_column("size").sum() == frame.get_column("size").sum()
    assert by_call.get_column("modules").null_count() == by_call.height
