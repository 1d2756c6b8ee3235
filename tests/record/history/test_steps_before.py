"""The steps that an optimizer has taken before, by its own count."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kinetoscope.record.history.series import steps_before  # noqa: E402

pytestmark = pytest.mark.torch


def stepped(kind: str, times: int, **options: object) -> object:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = getattr(torch.optim, kind)([parameter], lr=0.1, **options)
    for _ in range(times):
        parameter.sum().backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad", "RMSprop", "NAdam"])
def test_they_are_read_without_an_operator(kind: str) -> None:
    optimizer = stepped(kind, 7)
    with torch.profiler.profile() as profiler:
        assert steps_before(optimizer) == 6
        torch.ones(1)
    assert {event.name for event in profiler.events()} == {"aten::ones", "aten::empty", "aten::fill_"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_whatever_type_counts(dtype: Any) -> None:
    optimizer = stepped("Adam", 1)
    [state] = optimizer.state.values()  # type: ignore[attr-defined]
    state["step"] = torch.arange(100, dtype=dtype)[41]  # within a storage of others
    assert steps_before(optimizer) == 40
    state["step"] = 12
    assert steps_before(optimizer) == 11
    state["step"] = "many"
    assert steps_before(optimizer) == 0


def test_without_a_count_there_were_none() -> None:
    assert steps_before(stepped("SGD", 3)) == 0
    assert steps_before(object()) == 0
