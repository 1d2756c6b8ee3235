"""What the rules about memory find in traces drawn by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import advise, read
from kinetoscope.advisor.finding import NO_STAKE, Finding
from tests.advisor.views import STEP, findings, rank_view, steps
from tests.drawn import Event, annotation, event, kernel, launch, memory, op, python
from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

COUNT = 6
GB = 10**9


def device(total: int) -> dict[str, Any]:
    """What the file says of the device."""
    return {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": total}]}


def levels(floor: int, peak: int, reserved: int, *, keep: int = 0) -> list[Event]:
    """In each step the allocator gives out memory and takes it back, but for what is kept."""
    events, base = [], floor
    for n in range(COUNT):
        begin, size = n * STEP, peak - floor
        level = {"Total Reserved": reserved, "device": 0}
        events += [
            op("aten::empty", begin + 1000, 5000),
            memory(begin + 2000, size, **level, Addr=100, **{"Total Allocated": base + size}),
            memory(begin + 900_000, -size, **level, Addr=100, **{"Total Allocated": base}),
        ]
        if keep:
            base += keep
            events.append(op("aten::clone", begin + 910_000, 5000))
            events.append(memory(begin + 911_000, keep, **level, Addr=200 + n, **{"Total Allocated": base}))
    return events


def launches(gap: int = 0, work: int = 100_000) -> list[Event]:
    """A kernel a step, and one of the optimizer's."""
    events = []
    for n in range(COUNT):
        begin = n * STEP
        events += [launch(begin + 100_000 + gap, 5000, 2 * n + 1), launch(begin + 700_000, 5000, 2 * n + 2)]
        events.append(kernel("gemm", begin + 108_000 + gap, work, 2 * n + 1))
        events.append(annotation("Optimizer.step#AdamW.step", begin + 650_000, 100_000))
        events.append(kernel("adam", begin + 708_000, 50_000, 2 * n + 2))
    return [*steps(COUNT), *events]


def launched_in_a_row(*, once: int = 0) -> list[Event]:
    """In each step of 1 ms 40 operators of 10 µs launch a kernel of 2 µs each; Python runs for the rest of it.

    once: length of the last launch call, ns; 0: like the others.
    """
    events = steps(COUNT)
    for n in range(COUNT):
        for k in range(40):
            begin, number = n * STEP + 100_000 + k * 10_000, n * 40 + k + 1
            took = once if once and k == 39 else 5000
            events += [op("aten::add", begin, took + 4000), launch(begin + 1000, took, number)]
            events.append(kernel("add", begin + took + 2000, 2000, number))
    return events


def test_room_for_a_larger_batch(tmp_path: Path) -> None:
    """Eight samples share 400 µs of launching, of which kernels hide 80; Python for each sample may be the rest."""
    view = rank_view(tmp_path, *launched_in_a_row(), *levels(4 * GB, 8 * GB, 9 * GB), **device(80 * GB))
    (finding,) = findings("MEMORY001", view)
    assert "8 times" in finding.message
    assert "89%" in finding.message
    assert finding.stake.high == pytest.approx(400_000 * 7 / 8, rel=0.03)
    assert finding.at_most == "critical"
    assert finding.stake.low == pytest.approx(0.75 * finding.stake.high, rel=0.05)
    assert finding.takes is not None
    assert finding.takes == pytest.approx(320_000, rel=0.03)
    assert finding.confidence == "medium"


def test_what_may_grow_with_the_batch_is_not_at_stake(tmp_path: Path) -> None:
    """Host time that launches nothing, and a launch that loads a library once."""
    view = rank_view(tmp_path, *launches(), *levels(4 * GB, 8 * GB, 9 * GB), **device(80 * GB))
    (finding,) = findings("MEMORY001", view)  # all but the update of 100 µs and two launches of 5
    assert finding.stake.high < 0.13 * STEP
    frames = [python("preprocess.py(3): normalize", n * STEP + 1000, 95_000) for n in range(COUNT)]
    room = levels(4 * GB, 8 * GB, 9 * GB)
    slow = rank_view(tmp_path, *launched_in_a_row(), *frames, *room, **device(80 * GB))
    assert findings("MEMORY001", slow)[0].stake.high == pytest.approx(400_000 * 7 / 8, rel=0.03)
    length = 20 * STEP
    cold = [*launched_in_a_row(once=length)[COUNT:], annotation("ProfilerStep#0", 0, COUNT * STEP + length)]
    first = findings("MEMORY001", rank_view(tmp_path, *cold, *room, **device(80 * GB)))
    assert all(each.stake.high < 0.3 * length for each in first)


@pytest.mark.parametrize(
    ("peak", "reserved", "total"),
    [
        (30 * GB, 40 * GB, 50 * GB),  # most of it is used
        (4 * GB, 5 * GB, 80 * GB),  # nothing shows what a batch takes
        (8 * GB, 9 * GB, 0),  # nobody knows what the device has
        (20 * GB, 21 * GB, 43 * GB),  # twice of it would not fit
    ],
)
def test_no_room_for_a_larger_batch(tmp_path: Path, peak: int, reserved: int, total: int) -> None:
    floor = 4 * GB if peak != 20 * GB else 0
    view = rank_view(tmp_path, *launches(), *levels(floor, peak, reserved), **device(total))
    assert findings("MEMORY001", view) == []


def test_a_busy_device_gains_nothing_by_a_larger_batch(tmp_path: Path) -> None:
    busy = [
        each
        for n in range(COUNT)
        for each in (launch(n * STEP + 1000, 5000, n + 1), kernel("gemm", n * STEP + 10_000, STEP - 1000, n + 1))
    ]
    view = rank_view(tmp_path, *steps(COUNT), *busy, *levels(4 * GB, 8 * GB, 9 * GB), **device(80 * GB))
    assert findings("MEMORY001", view) == []


@pytest.mark.parametrize(("rows", "gains"), [(8, True), (4096, False)])
def test_weights_that_are_read_for_few_rows_serve_a_larger_batch(tmp_path: Path, rows: int, gains: bool) -> None:
    """A busy device: eight times 8 rows of a layer take as long as 8, those of 4,096 rows eight times as long."""
    shapes: dict[str, Any] = {"Input Dims": [[rows, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
    busy = [
        each
        for n in range(COUNT)
        for each in (
            event("cpu_op", "aten::mm", n * STEP + 500, 7000, **shapes),
            launch(n * STEP + 1000, 5000, n + 1),
            kernel("gemm", n * STEP + 10_000, STEP - 20_000, n + 1),
            event("cuda_runtime", "cudaDeviceSynchronize", n * STEP + 9_000, STEP - 16_000, correlation=1000 + n),
        )
    ]
    view = rank_view(tmp_path, *steps(COUNT), *busy, *levels(4 * GB, 8 * GB, 9 * GB), **device(80 * GB))
    found = findings("MEMORY001", view)
    assert len(found) == gains
    if gains:
        assert found[0].stake.high == pytest.approx(STEP * 7 / 8, rel=0.02)
        assert found[0].stake.low < 0.01 * STEP
        assert found[0].at_most == "note"


def test_memory_that_is_nearly_full(tmp_path: Path) -> None:
    (finding,) = findings("MEMORY002", rank_view(tmp_path, *launches(), *levels(GB, 9 * GB, 9 * GB), **device(10 * GB)))
    assert finding.stake == NO_STAKE
    assert finding.key == "cuda:0"
    assert "90%" in finding.message


def test_what_torch_keeps_in_reserve_does_not_make_memory_full(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *launches(), *levels(GB, 5 * GB, 10 * GB), **device(10 * GB))
    assert findings("MEMORY002", view) == []


def test_memory_that_ran_out_is_said(tmp_path: Path) -> None:
    failed = {"ph": "i", "cat": "cpu_instant_event", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 5, "s": "t"}
    view = rank_view(tmp_path, *launches(), *levels(GB, 5 * GB, 8 * GB), failed, **device(10 * GB))
    (finding,) = findings("MEMORY002", view)
    assert "ran out 1 time" in finding.message


def calls(name: str, first: int = 0, length: int = 200_000) -> list[Event]:
    """A call of the driver in each step from one on."""
    return [event("cuda_runtime", name, n * STEP + 300_000, length) for n in range(first, COUNT)]


def test_calls_of_the_driver_are_at_stake(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *launches(), *calls("cudaMalloc"))
    (finding,) = findings("MEMORY003", view)
    assert finding.stake.high == pytest.approx(200_000)
    assert finding.stake.low == pytest.approx(160_000)
    assert "`cudaMalloc`" in finding.message


def test_a_pool_that_fills_up_is_left_alone(tmp_path: Path) -> None:
    warm = [each for each in calls("cudaMalloc") if each["ts"] < 2 * STEP / 1000]
    assert findings("MEMORY003", rank_view(tmp_path, *launches(), *warm)) == []


def test_the_drivers_own_pool_is_left_alone(tmp_path: Path) -> None:
    assert findings("MEMORY003", rank_view(tmp_path, *launches(), *calls("cudaMallocAsync"))) == []


def test_fragments(tmp_path: Path) -> None:
    (finding,) = findings("MEMORY004", rank_view(tmp_path, *launches(), *levels(GB, 4 * GB, 8 * GB), **device(10 * GB)))
    assert finding.stake == NO_STAKE
    assert "50%" in finding.message


def test_what_is_held_but_not_scarce_is_left_alone(tmp_path: Path) -> None:
    assert findings("MEMORY004", rank_view(tmp_path, *launches(), *levels(GB, 4 * GB, 8 * GB), **device(80 * GB))) == []
    assert findings("MEMORY004", rank_view(tmp_path, *launches(), *levels(GB, 4 * GB, 8 * GB))) == []


def test_fragments_matter_where_the_driver_is_called(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *launches(), *calls("cudaMalloc"), *levels(GB, 4 * GB, 8 * GB))
    assert len(findings("MEMORY004", view)) == 1


def test_memory_that_grows(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *launches(), *levels(GB, 4 * GB, 8 * GB, keep=10**6), **device(80 * GB))
    (finding,) = findings("MEMORY005", view)
    assert "1.00\u00a0MB a step" in finding.message
    assert "`aten::clone`" in finding.message
    assert "steps" in finding.message
    assert findings("MEMORY005", rank_view(tmp_path, *launches(), *levels(GB, 4 * GB, 8 * GB))) == []


def test_what_lbfgs_keeps_of_its_last_steps_is_no_list_of_losses(tmp_path: Path) -> None:
    growing = [*launches(), *levels(GB, 4 * GB, 8 * GB, keep=10**6)]
    for name, is_history in (("SGD", False), ("LBFGS", True)):
        update = annotation(f"Optimizer.step#{name}.step", 0, 1000)
        (finding,) = findings("MEMORY005", rank_view(tmp_path, *growing, update, **device(80 * GB)))
        assert (finding.change == "") == ("`history_size`" in finding.why) == is_history


def test_growth_by_a_few_numbers_is_left_alone(tmp_path: Path) -> None:
    assert findings("MEMORY005", rank_view(tmp_path, *launches(), *levels(GB, 4 * GB, 8 * GB, keep=512))) == []


def test_without_memory_all_are_silent(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *launches(), **device(80 * GB))
    assert [findings(f"MEMORY00{n}", view) for n in range(1, 6)] == [[]] * 5


def test_memory_that_a_snapshot_shows_to_wait_for_a_stream(tmp_path: Path) -> None:
    def plant(process: Process, step: int) -> None:
        block = process.alloc("all_gather", 1 << 20, stream=SIDE_STREAM)
        process.allocators[0].record_stream(block, 0)
        process.free(block)

    process = Process(stacks="python")
    process.record()
    model = Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100)
    training = Training(process, model, metadata=True, after_step=lambda step: plant(process, step))
    training.build()
    training.run(8)
    write(tmp_path / "memory.pickle", process.snapshot())
    [finding] = advise(read(tmp_path / "memory.pickle", jobs=1)).findings
    assert finding.code == "MEMORY005"
    assert "allocated at `train.py:51`, was freed, and waits for work of another stream" in finding.message
    assert "wait_stream" in finding.change


def advised(folder: Path, process: Process, code: str) -> list[Finding]:
    write(folder / "memory.pickle", process.snapshot())
    return [each for each in advise(read(folder / "memory.pickle", jobs=1)).findings if each.code == code]


def halves(sizes: range, total: int = 1 << 30, settings: Settings | None = None) -> Process:
    """Tensors of each of which a half is taken again, so that a longer one does not fit beside it."""
    process = Process(settings or Settings(), total=total, other=0, stacks="python")
    process.record()
    for size in sizes:
        process.free(process.alloc("empty", size << 20))
        process.alloc("empty", (size // 2 + 2) << 20)
    return process


def test_fragmentation_in_a_snapshot_comes_with_the_setting_that_removes_it(tmp_path: Path) -> None:
    settings = Settings(roundup_power2_divisions=(0,) * 16, max_split_size=512 << 20)
    [finding] = advised(tmp_path, halves(range(40, 140, 10), settings=settings), "MEMORY004")
    message = finding.message.replace("\xa0", " ")
    assert "It reserves up to 891 MB on `cuda:0`, and at most 533 MB are in use." in message
    assert (
        "with `expandable_segments:True` it reserves at most 545 MB, and 891 MB with the recorded settings." in message
    )
    assert finding.change.startswith("+ PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True")


def test_fragmentation_that_ends_the_job_says_what_would_have_fitted(tmp_path: Path) -> None:
    process = halves(range(40, 140, 10), total=900 << 20)
    with pytest.raises(OutOfMemory):
        process.alloc("empty", 420 << 20)
    [finding] = advised(tmp_path, process, "MEMORY004")
    assert "with `expandable_segments:True` no request fails, and it reserves at most" in finding.message
    assert "no request fails" in finding.message


def test_equal_tensors_are_not_fragmented(tmp_path: Path) -> None:
    assert advised(tmp_path, halves(range(40, 41)), "MEMORY004") == []


@pytest.mark.parametrize(("calls", "count"), [(4, 1), (2, 0)])
def test_a_cache_that_is_emptied_in_the_loop(calls: int, count: int, tmp_path: Path) -> None:
    process = Process(stacks="python")
    process.record()
    for _ in range(calls):
        process.free(process.alloc("empty", 30 << 20))
        process.empty_cache()
    process.alloc("empty", 30 << 20)
    found = advised(tmp_path, process, "MEMORY008")
    assert len(found) == count
    for finding in found:
        message = finding.message.replace("\xa0", " ")
        assert "`train.py:120` calls it 4 times: 126 MB of `cuda:0` were freed" in message
        assert finding.change == "- torch.cuda.empty_cache()  # train.py:120"


def test_a_cache_that_the_allocator_empties_itself_is_not_the_programs_doing(tmp_path: Path) -> None:
    process = Process(total=100 << 20, other=0, stacks="python")
    process.record()
    for size in range(30, 60):
        process.free(process.alloc("empty", size << 20))
    assert advised(tmp_path, process, "MEMORY008") == []


def test_a_request_that_failed_is_critical(tmp_path: Path) -> None:
    process = halves(range(40, 140, 10), total=900 << 20)
    with pytest.raises(OutOfMemory):
        process.alloc("empty", 420 << 20)
    [finding] = advised(tmp_path, process, "MEMORY009")
    message = finding.message.replace("\xa0", " ")
    assert message.startswith("A request for memory failed: fragmentation. `cuda:0` had no 440 MB for the request of")
    assert (finding.severity, finding.confidence) == ("critical", "high")
    assert finding.change == "+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment"
    assert not advised(tmp_path, halves(range(40, 140, 10)), "MEMORY009")


@pytest.mark.parametrize(("shared", "count"), [(False, 1), (True, 0)])
def test_graphs_with_pools_of_their_own(tmp_path: Path, shared: bool, count: int) -> None:
    process = Process(stacks="python")
    process.record()
    for number in range(3):
        with process.capture((0, 1) if shared else (number + 1, 0)):
            process.free(process.alloc("mm", (40 + 10 * number) << 20))
    found = advised(tmp_path, process, "MEMORY013")
    assert len(found) == count
    for finding in found:
        message = finding.message.replace("\xa0", " ")
        assert "3 private pools of `cuda:0` hold 157 MB without use; if they shared one, 94.4 MB (60%" in message


@pytest.mark.parametrize(("total", "count"), [(100 << 20, 1), (1 << 30, 0)])
def test_requests_for_which_the_cache_had_to_be_returned(tmp_path: Path, total: int, count: int) -> None:
    process = Process(stacks="python", total=total, other=0)
    process.record()
    for size in (60, 70, 60):
        process.free(process.alloc("mm", size << 20))
    found = advised(tmp_path, process, "MEMORY002")
    assert len(found) == count
    for finding in found:
        assert "1 time `cuda:0` had no more for a request" in finding.message
