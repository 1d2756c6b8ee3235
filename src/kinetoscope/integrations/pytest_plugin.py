"""The fixture `perf_gate`: a test that fails when a step got slower than its baseline, beyond noise.

    def test_a_step_is_not_slower(perf_gate, tmp_path):
        runs = [record(tmp_path / str(number)) for number in range(3)]   # folders of traces
        perf_gate(runs, baseline="perf.json", max_regression={"step_time": "5%"})

`pytest --kinetoscope-update-baseline` writes the baseline instead. Pytest loads this module whenever it starts, by its
entry point, so it imports nothing but pytest; what measures is imported when a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from kinetoscope.compare.gate.gate import Gate
    from kinetoscope.compare.gate.limits import Limit
    from kinetoscope.compare.statistics.numbers import Numbers
    from kinetoscope.model.job import Job

_OPTION: Final = "--kinetoscope-update-baseline"
_PROPERTY: Final = "kinetoscope perf_gate"

Limits = Mapping[str, str | float] | Iterable["Limit | str"] | None


class PerfGate(Protocol):
    """The type of the fixture."""

    def __call__(
        self,
        runs: Any,
        baseline: str | os.PathLike[str],
        *,
        max_regression: Limits = None,
        strict: bool = False,
        noise: str | float = 0.02,
        any_device: bool = False,
    ) -> Gate | None:
        """Hold the runs against the baseline; fail the test if something got worse, beyond noise and its limit.

        Args:
            runs: a run or several: folders or files of traces, what `kinetoscope.read` gave, profilers that have ended
                (`kinetoscope.profile`, `torch.profiler.profile`). Three of 20 steps or more find 5 %.
            baseline: the file; a relative path is from the folder of the test's file.
            max_regression: `{"step_time": "5%", "op:aten::conv2d": "10%"}`; the step time's by default, 2.5 %.
            strict: fail, too, where getting worse by the limit is not ruled out.
            noise: how much runs of one program are expected to differ where they do not tell.
            any_device: compare with a baseline of another device.

        Returns:
            What was found; None where the baseline was written.
        """
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    group = parser.getgroup("kinetoscope")
    group.addoption(_OPTION, action="store_true", help="perf_gate writes its baselines, and passes")


@pytest.fixture
def perf_gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PerfGate:
    """Holds runs against a committed baseline: `perf_gate(runs, "perf.json", max_regression={"step_time": "5%"})`."""

    def hold(
        runs: Any,
        baseline: str | os.PathLike[str],
        *,
        max_regression: Limits = None,
        strict: bool = False,
        noise: str | float = 0.02,
        any_device: bool = False,
    ) -> Gate | None:
        __tracebackhide__ = True
        from kinetoscope.compare.gate.baseline import load, save
        from kinetoscope.compare.gate.causes import causes
        from kinetoscope.compare.gate.gate import gate
        from kinetoscope.compare.gate.limits import limits_of
        from kinetoscope.errors import KinetoscopeError
        from kinetoscope.pages.sentences.gate import sentence
        from kinetoscope.screens.values import gate_text

        file = request.path.parent / baseline
        try:
            limits = limits_of(max_regression)
            measured = [_measured(run, tmp_path_factory) for run in _several(runs)]
            if request.config.getoption(_OPTION):
                save(file, measured, limits)
                _tell(request, f"wrote {_short(file, request)}")
                return None
            verdict = gate(load(file), measured, limits, strict=strict, noise=noise, any_device=any_device)
        except KinetoscopeError as error:
            advice = "" if file.exists() else f"\npytest {_OPTION} writes it."
            pytest.fail(f"perf_gate: {error}{advice}", pytrace=False)
        if not verdict.passed:
            pytest.fail(gate_text(verdict, causes(verdict)), pytrace=False)
        if verdict.doubtful:
            _tell(request, sentence(verdict))
        return verdict

    return hold


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell what is no failure: baselines written, and gates that passed with doubt."""
    lines = [
        (report.nodeid, text)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == _PROPERTY
    ]
    if lines:
        terminalreporter.section("performance gates")
        for node, text in lines:
            terminalreporter.write_line(f"{node}: {text}")


# --- runs


def _several(runs: Any) -> Sequence[Any]:
    """The runs as a sequence; one run is one."""
    one = isinstance(runs, str | os.PathLike) or not isinstance(runs, Sequence)
    return [runs] if one else list(runs)


def _measured(run: Any, folders: pytest.TempPathFactory) -> Numbers:
    from kinetoscope.compare.statistics.numbers import Numbers, numbers

    return run if isinstance(run, Numbers) else numbers(_job(run, folders))


def _job(run: Any, folders: pytest.TempPathFactory) -> Job:
    from kinetoscope.errors import UsageError
    from kinetoscope.model.job import Job
    from kinetoscope.reading import read

    if isinstance(run, Job):
        return run
    if isinstance(run, str | os.PathLike):
        return read(run)
    if isinstance(traces := getattr(run, "traces", None), list):
        if not traces:
            raise UsageError("the profiler wrote no trace: give it as many step() as wait + warmup + active")
        return read(traces[0] if len(traces) == 1 else os.path.dirname(traces[0]))  # noqa: PTH120 - may be a URL
    if callable(export := getattr(run, "export_chrome_trace", None)):
        path = folders.mktemp("perf_gate") / "run.pt.trace.json"
        export(str(path))
        return read(path)
    raise UsageError(f"perf_gate takes folders or files of traces, jobs, or profilers; not {type(run).__name__}")


# --- words


def _tell(request: pytest.FixtureRequest, text: str) -> None:
    request.node.user_properties.append((_PROPERTY, text))


def _short(file: Path, request: pytest.FixtureRequest) -> str:
    root = request.config.rootpath
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
