"""What all tests share: where the real traces are."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "tests" / "traces"
DEMO = ROOT / "src" / "kinetoscope" / "demo" / "training.pt.trace.json.gz"
SHARED = ROOT.parent / "shared" / "traces"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces by others; the test is skipped where it is not there."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared/traces, real traces by others that are not part of the project")
    return SHARED
