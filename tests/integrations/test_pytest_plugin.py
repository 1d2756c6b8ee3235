"""The fixture `perf_gate`, in a pytest of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.compare.gated import drawn

pytestmark = pytest.mark.slow

PLUGIN = "kinetoscope.integrations.pytest_plugin"

TEST = """
from pathlib import Path

HERE = Path(__file__).parent

def test_a_step(perf_gate):
    found = perf_gate([HERE / f"{side}{{n}}" for n in range(3)], "perf.json", max_regression={{"step_time": "5%"}})
    print("found:", found and found.passed)
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    for number in range(3):
        drawn(pytester.path / f"same{number}", seed=number)
        drawn(pytester.path / f"slow{number}", seed=number + 10, gemm=5.5)
    return pytester.path


def outcome(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # Where the package was installed before it had the entry point, the plugin is named.
    installed = entry_points(group="pytest11", name="kinetoscope")
    named = [] if installed else ["-p", PLUGIN]
    return pytester.runpytest_subprocess(*named, "-p", "no:cacheprovider", "-W", "error", *arguments)


def written(pytester: pytest.Pytester, side: str) -> None:
    pytester.makepyfile(test_it=TEST.replace("{side}", side).replace("{{", "{").replace("}}", "}"))


@pytest.mark.slow
def test_without_a_baseline_it_says_how_to_write_one(folder: Path, pytester: pytest.Pytester) -> None:
    written(pytester, "same")
    result = outcome(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*perf.json: no such file*", "*pytest --kinetoscope-update-baseline writes it*"])


def test_a_baseline_is_written_then_held_against(folder: Path, pytester: pytest.Pytester) -> None:
    written(pytester, "same")
    result = outcome(pytester, "--kinetoscope-update-baseline")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*performance gates*", "test_it.py::test_a_step: wrote perf.json"])
    assert len(json.loads((folder / "perf.json").read_text())["runs"]) == 3

    result = outcome(pytester, "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*found: True*"])
    assert "performance gates" not in result.stdout.str()

    written(pytester, "slow")
    result = outcome(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The gate failed: step_time is worse*", "*worse: fails", "gemm *"])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.slow
def test_a_doubt_passes_and_is_told(folder: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        from pathlib import Path
        import pytest
        from kinetoscope import read

        HERE = Path(__file__).parent

        def test_one_run(perf_gate):
            assert perf_gate(read(HERE / "same0"), HERE / "one.json").passed

        def test_strict(perf_gate):
            perf_gate(str(HERE / "same0"), "one.json", strict=True)

        def test_what_is_no_run(perf_gate):
            perf_gate(5, "one.json")
        """
    )
    outcome(pytester, "--kinetoscope-update-baseline", "-k", "one_run").assert_outcomes(failed=1)  # None.passed
    result = outcome(pytester)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["*may be worse*", "*not int*", "*performance gates*", "test_it.py::test_one_run: The gate passed, with doubt*"]
    )


@pytest.mark.slow
def test_profilers_that_have_ended_are_runs(folder: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import shutil
        from pathlib import Path

        TRACE = Path(__file__).parent / "same0" / "run.pt.trace.json"

        class OfTorch:
            def export_chrome_trace(self, path):
                shutil.copy(TRACE, path)

        class OfOurs:
            traces = [str(TRACE)]

        class Empty:
            traces = []

        def test_both(perf_gate):
            perf_gate([OfTorch(), OfOurs(), OfTorch()], "p.json")

        def test_none(perf_gate):
            perf_gate(Empty(), "p.json")
        """
    )
    result = outcome(pytester, "--kinetoscope-update-baseline")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the profiler wrote no trace*"])


def test_the_entry_point_is_declared() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"kinetoscope": PLUGIN}


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = (
        f"import sys, pytest, {PLUGIN}\n"
        "print([name for name in ('numpy', 'polars', 'numba', 'rich', 'torch') if name in sys.modules])"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": str(source), "PATH": ""},
    )
    assert done.stdout == "[]\n"
