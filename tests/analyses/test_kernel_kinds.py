from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, kernel_kinds
from tests import drawn

KINDS = {"gemm": "computation", "ncclDevKernel_AllReduce": "communication", "Memcpy DtoD": "memory"}
CATEGORY = {"Memcpy DtoD": "gpu_memcpy"}

Row = tuple[str, int, int]


def rows(folder: Path, *events: drawn.Event, **select: tuple[int, ...]) -> dict[int, list[Row]]:
    """Kinds, time and total of the rows of each device, in order."""
    frame = kernel_kinds(drawn.job(folder, *events), select=Selection(**select)).frame  # type: ignore[arg-type]
    return {
        int(device): part.select("kinds", "time", "total").rows()
        for (device,), part in frame.group_by("device", maintain_order=True)
    }


def test_each_instant_belongs_to_the_exact_combination(tmp_path: Path) -> None:
    events = [
        drawn.kernel("gemm", 0, 10, 1),
        drawn.kernel("gemm", 2, 3, 2, stream=9),  # beside the first: no more computation than one
        drawn.kernel("ncclDevKernel_AllReduce", 5, 15, 3, stream=8),
        drawn.kernel("Memcpy DtoD", 8, 10, 4, stream=10, category="gpu_memcpy"),
        drawn.kernel("Memset", 30, 4, 5, stream=10, category="gpu_memset"),
    ]
    assert rows(tmp_path, *events) == {
        0: [
            ("communication+memory", 8, 10),
            ("computation", 5, 10),
            ("memory", 4, 14),
            ("computation+communication", 3, 5),
            ("communication", 2, 15),
            ("computation+communication+memory", 2, 2),
            ("computation+memory", 0, 2),
        ]
    }


works = st.lists(
    st.tuples(st.sampled_from(list(KINDS)), st.integers(0, 30), st.integers(0, 9), st.integers(0, 1)),
    min_size=1,
    max_size=10,
)


@given(works)
def test_it_equals_a_count_of_instants(tmp_path: Path, work: list[tuple[str, int, int, int]]) -> None:
    events = [
        drawn.kernel(name, start, duration, place + 1, device=device, category=CATEGORY.get(name, "kernel"))
        for place, (name, start, duration, device) in enumerate(work)
    ]
    found = rows(tmp_path, *events)
    for device in (0, 1):
        running: dict[int, set[str]] = {}
        for name, start, duration, of in work:
            for instant in range(start, start + duration if of == device else start):
                running.setdefault(instant, set()).add(KINDS[name])
        exact = Counter("+".join(sorted(kinds, key=list(KINDS.values()).index)) for kinds in running.values())
        mine = found.get(device, [])
        assert {kinds: time for kinds, time, _ in mine if time} == dict(exact)
        for kinds, _, total in mine:
            assert total == sum(set(kinds.split("+")) <= here for here in running.values())


def test_what_only_looks_like_device_work_is_none(tmp_path: Path) -> None:
    events = [
        drawn.kernel("gemm", 0, 10, 1),
        drawn.kernel("hipcub_sort", 20, 5, 2),  # HTA takes it for communication, because it begins with hip
        drawn.kernel("sync_batch_norm_dma_Memcpy", 30, 5, 3),  # and this one for neither kind
        drawn.event("cuda_sync", "Stream Wait Event", 0, 90, stream=7, correlation=4),
        drawn.op("triton_op", 0, 90, stream=0),
    ]
    assert rows(tmp_path, *events) == {0: [("computation", 20, 20)]}


def test_steps_select_work_by_its_launch(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{n}", 100 * n, 100) for n in (1, 2)]
    launches = [drawn.launch(110, 5, 1), drawn.launch(210, 5, 2)]
    work = [drawn.kernel("gemm", 120, 30, 1), drawn.kernel("gemm", 220, 10, 2)]
    assert rows(tmp_path, *steps, *launches, *work, steps=(2,)) == {0: [("computation", 10, 10)]}


# Of traces with fractions of microseconds HTA's own sums lack up to a microsecond an interval, rounding or not.
