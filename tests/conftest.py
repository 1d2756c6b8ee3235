"""What all tests share: where the real traces are, how many examples hypothesis draws, and the tiers.

`make test` leaves out what is marked `slow` or `torch`; `make test-all` runs that, and every property again with the
examples of the profile `ci`. `HYPOTHESIS_PROFILE=ci make test ARGS="-k intervals"` asks for them by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "tests" / "traces"
DEMO = ROOT / "src" / "kinetoscope" / "demo" / "training.pt.trace.json.gz"
SHARED = ROOT.parent / "shared" / "traces"

_ALLOWED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("brief", max_examples=5, deadline=None, suppress_health_check=_ALLOWED)
settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=_ALLOWED)
settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=_ALLOWED, print_blob=True)
os.environ["KINETOSCOPE_PEAKS"] = "off"  # what is known of devices is not what somebody measured on this machine
os.environ["KINETOSCOPE_NO_HISTORY"] = "1"  # nor what was tried on it
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)

few_examples = settings(max_examples=settings.get_profile(PROFILE).max_examples // 5)
"""For a property of which each example takes long."""


def first_quick(values: Iterable[object]) -> list[ParameterSet]:
    """For `parametrize`: `make test` runs the first of them only."""
    return [pytest.param(value, marks=pytest.mark.slow if at else ()) for at, value in enumerate(values)]


_LONG = ("tests/algorithms/test_prebuilt.py", "tests/cli/test_warm.py", "tests/tools/test_gpu.py", "tests/zoo/")
"""Where a test takes half a minute: these begin first, so that at the end no process waits for one of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first; skip what needs torch where it is absent."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason="torch is not installed: `make test-recorder` installs it"))


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces by others; the test is skipped where it is not there."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared/traces, real traces by others that are not part of the project")
    return SHARED
