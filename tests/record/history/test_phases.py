"""Phases in the recorder: timers of frameworks, `kinetoscope.range`, which are too short, what is not theirs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import kinetoscope
from kinetoscope.record import ranges
from kinetoscope.record.history import phases
from kinetoscope.record.history.phases import Phases


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of phases that were added, with phases of any length."""
    names: list[str] = []
    monkeypatch.setattr(phases, "_LEAST_NS", 0)
    monkeypatch.setattr(ranges, "ended", None)
    finders = [*sys.meta_path]
    yield names
    sys.meta_path[:] = finders


def module(name: str, monkeypatch: pytest.MonkeyPatch, **contents: Any) -> Any:
    """A module of a framework that is imported."""
    made = ModuleType(name)
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, name, made)
    return made


class Named:
    """A timer with a name of its own, as codetiming's."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def start(self) -> str:
        return "started"

    def stop(self) -> float:
        return 1.0


class OfNames:
    """A timer that is told names, as slime's and NeMo-RL's."""

    def start(self, label: str, should_log: bool = True) -> None:
        """Begin."""

    def stop(self, label: str) -> float:
        return 2.0 if label else 0.0

    end = stop


class Context:
    """A context with a name, as TRL's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""


def test_timers_of_frameworks_are_phases(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    timer = type("Timer", (Named,), dict(vars(Named)))
    of_names = type("Timer", (OfNames,), dict(vars(OfNames)))
    context = type("ProfilingContext", (Context,), dict(vars(Context)))
    module("codetiming._timer", monkeypatch, Timer=timer)
    module("nemo_rl.utils.timer", monkeypatch, Timer=of_names)
    module("trl.extras.profiling", monkeypatch, ProfilingContext=context)
    Phases(lambda name, start, end: seen.append(name) if start < end else None).attach()
    one = timer("gen")
    assert (one.start(), one.stop()) == ("started", 1.0)
    other = of_names()
    other.start("policy_training")
    other.start("reward_calculation", should_log=False)
    other.stop("reward_calculation")
    assert other.stop(label="policy_training") == 2.0
    with context("GRPOTrainer.compute_loss"):
        pass
    with pytest.raises(ValueError, match="as before"), context("failed"):
        raise ValueError("as before")
    assert seen == ["gen", "reward_calculation", "policy_training", "GRPOTrainer.compute_loss", "failed"]


def test_timers_without_a_name_or_of_another_version_are_none(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    timer = type("Timer", (Named,), dict(vars(Named)))
    module("codetiming._timer", monkeypatch, Timer=timer)
    module("slime.utils.timer", monkeypatch, Timer=object)
    context = type("ProfilingContext", (Context,), dict(vars(Context)))
    module("trl.extras.profiling", monkeypatch, ProfilingContext=context)
    Phases(lambda name, *_: seen.append(name)).attach()
    timer().start()
    timer().stop()
    with context(""):
        pass
    assert seen == []


def test_ranges_are_phases_where_they_are_long(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_LEAST_NS", 20_000_000)
    Phases(lambda name, *_: seen.append(name)).attach()
    with kinetoscope.range("short"):
        pass
    with kinetoscope.range("long"):
        time.sleep(0.03)

    @kinetoscope.range("called")
    def work() -> None:
        time.sleep(0.03)

    work()
    assert seen == ["long", "called"]


@pytest.mark.torch
def test_spans_of_torch_are_phases_unless_they_are_its_own(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
    kind = torch.autograd.profiler.record_function
    monkeypatch.setattr(kind, "__enter__", kind.__enter__)  # put back afterwards
    monkeypatch.setattr(kind, "__exit__", kind.__exit__)
    Phases(lambda name, *_: seen.append(name)).attach()
    for name in ("rollout", "forward", "Optimizer.step#Adam.step", "nn.Module: Linear_0"):
        with torch.profiler.record_function(name):
            pass

    def inside(x: Any) -> Any:
        with torch.profiler.record_function("inside"):
            return x + 1

    assert torch.compile(inside, backend="eager", fullgraph=True)(torch.ones(1)).item() == 2
    with torch.profiler.profile(), kinetoscope.range("reward"):
        pass
    assert seen == ["rollout", "reward"]
