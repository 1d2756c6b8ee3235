"""Jobs in which nothing is even: noise of kernels and hosts, warm-up, steps of different lengths, faults now and then.

Who makes the others wait is found all the same; where nobody does, nobody is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from kinetoscope import stragglers
from kinetoscope.reading import read
from tests.notes import codes
from tests.simulator import Fault, Model, simulate
from tests.simulator.cases import drawn, noisy
from tests.simulator.judging import wrong

pytestmark = pytest.mark.slow

_CASES: Final = 24
_BLOCKS: Final = 2


def verdicts(folder: Path, models: Iterable[Model]) -> dict[int, str]:
    """What is wrong, by seed."""
    found = {}
    for model in models:
        truth = simulate(model, folder / str(model.seed))
        said = wrong(truth, stragglers(read(str(folder / str(model.seed)), jobs=1)).frame)
        if said:
            found[model.seed] = said
    return found


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_the_straggler_is_found_among_noise(tmp_path: Path, block: int) -> None:
    found = verdicts(tmp_path, (noisy(5000 + case) for case in range(block, _CASES, _BLOCKS)))
    assert not {seed: said for seed, said in found.items() if not said.startswith("missed")}
    assert len(found) <= 1, found


def test_a_slow_link_and_noise_are_nobodys_fault(tmp_path: Path) -> None:
    models = (drawn(seed, causes=("none", "slow_link")) for seed in range(3000, 3012))
    even = {"noise": 0.03, "spread": 5000, "clock_offset": 10_000_000, "clock_drift": 20, "steps": 8}
    assert verdicts(tmp_path, (replace(model, **even) for model in models)) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "model",
    [
        Model(ranks=2, style="fsdp", steps=8, noise=0.0, fault=Fault("slow_kernels", 1, 0.2, every=2)),
        Model(ranks=4, style="fsdp", steps=4, missing=(2,), fault=Fault("synchronization", 3, 2e5, every=2)),
        Model(ranks=4, style="fsdp", expert=4, steps=5, noise=0.0, fault=Fault("synchronization", 3, 1e5)),
        Model(ranks=4, steps=10, noise=0.03, fault=Fault("host_gap", 1, 1e6), other=Fault("data_loading", 2, 2e6, 5)),
    ],
    ids=["each second step of two ranks", "beside a missing rank", "host-bound", "two at a time"],
)
def test_what_is_there_in_several_steps_is_no_chance(tmp_path: Path, model: Model) -> None:
    assert verdicts(tmp_path, [model]) == {}


@pytest.mark.parametrize("dialect", ["2024", "2026"])
def test_of_a_rank_whose_file_is_cut_the_cause_is_right(tmp_path: Path, dialect: str) -> None:
    """In 2024 what times count from stood at the end: the clock of such a file is wrong by decades."""
    fault = Fault("host_gap", 2, 1e6)
    model = Model(ranks=4, steps=6, dialect=dialect, fault=fault, cut=(2,), clock_offset=10_000_000)  # type: ignore[arg-type]
    assert verdicts(tmp_path, [model]) == {}


def test_where_much_is_missing_nobody_is_named_in_doubt(tmp_path: Path) -> None:
    models = (replace(drawn(seed), sampled=0.9, steps=6) for seed in range(7000, 7010))
    found = verdicts(tmp_path, models)
    assert not {seed: said for seed, said in found.items() if not said.startswith("missed")}


def test_an_accident_makes_no_straggler_but_is_told(tmp_path: Path) -> None:
    """All hosts take up to ten times as long in the first step."""
    model = Model(ranks=8, style="fsdp", steps=6, noise=0.01, warmup=10.0, seed=4)
    simulate(model, tmp_path)
    result = stragglers(read(str(tmp_path), jobs=1))
    assert not result.frame["straggler"].any()
    assert "ONE_OFF_DELAY" in codes(result.notes)
    steps = stragglers(read(str(tmp_path), jobs=1), by="step").frame
    assert steps.filter("straggler")["step"].unique().to_list() == [3]
