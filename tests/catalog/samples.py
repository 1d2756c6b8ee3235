"""Where real traces lie: those that come with the project, and larger ones beside a checkout, which may be absent."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests import conftest

ROOT, BUNDLED, SHARED = conftest.ROOT, conftest.OURS, conftest.SHARED
GOLDEN = SHARED.parent / "golden"

NO_TRACES = ("execution_trace/benchmark_simple_add_et.json.gz", "memory_timeline/memory_timeline.raw.gz")
"""Files among the shared ones that are something else."""

_SUFFIXES = (".trace.json.gz", ".trace.json", ".json.gz", ".json")


def bundled() -> list[Path]:
    """The traces that come with the project, the one of the demo included."""
    return [*sorted(BUNDLED.rglob("*.pt.trace.json.gz")), conftest.DEMO]


def shared() -> list[Path]:
    """The traces beside the checkout; none where they are absent."""
    found = [path for path in sorted(SHARED.rglob("*")) if path.name.endswith(_SUFFIXES)]
    return [path for path in found if path.relative_to(SHARED).as_posix() not in NO_TRACES]


def everywhere() -> list[ParameterSet]:
    """All of them, for `parametrize`; one that is skipped stands for the shared ones where they are absent."""
    near = [pytest.param(path, id=path.name.partition(".")[0]) for path in bundled()]
    far = [pytest.param(path, id=path.relative_to(SHARED).as_posix()) for path in shared()]
    absent = pytest.param(None, id="shared", marks=pytest.mark.skip(reason=f"no {SHARED}"))
    return [*near, *(far or [absent])]


def required(path: Path) -> Path:
    """The path, if it is there; else the test is skipped, with the reason."""
    if not path.exists():
        pytest.skip(f"no {path}")
    return path
