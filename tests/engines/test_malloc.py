"""Freed memory stays with the process once ranks are asked in threads."""

import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, resource, sys
import numpy as np

if sys.argv[1] == "kept":
    from kinetoscope.engines.threads import keep_freed_memory

    keep_freed_memory()
np.ones(2 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(2 << 20)  # 16 MB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(what: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, what], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is a function of glibc, on Linux")
def test_freed_memory_is_not_faulted_in_again() -> None:
    try:
        import ctypes

        ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018
    except AttributeError:
        pytest.skip("mallopt's options are those of glibc; this is another libc")
    assert _faults("kept") < 0.2 * _faults("usual")
