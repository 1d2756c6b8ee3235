"""The causes of the jobs are the real ones: each job runs through without its cause."""

from __future__ import annotations

import pytest

from tests.conftest import first_quick
from tests.snapshots import failing, growing
from tests.snapshots.case import MIB, Case


def name_of(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", first_quick(failing.CASES), ids=name_of)
def test_it_fails_for_this_reason(case: Case) -> None:
    process, error = case.run()
    allocator = process.allocators[0]
    assert error is not None
    room = allocator.total - allocator.other
    live = sum(block.size for block in allocator.active.values())
    if case.cause == "live data":
        assert live + error.asked > room
    elif case.cured_facts or case.cured_program:
        assert case.run_cured()[1] is None
    else:
        assert live + error.asked < room - 100 * MIB
        assert {block.stream for block in allocator.large.blocks} == {0}
        assert not allocator.private


@pytest.mark.parametrize("case", first_quick(growing.CASES), ids=name_of)
def test_a_longer_run_ends_with_more_if_it_leaks(case: Case) -> None:
    short, long = (case.longer(steps).run()[0].allocators[0].allocated for steps in (12, 24))
    assert (long > short) == (case.cause == "leak")
