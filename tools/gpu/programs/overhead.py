"""What a step takes on this device: plain, with torch.profiler, and with our recorder."""

from __future__ import annotations

import tempfile

from benchmarks.recorder import beside
from tools.gpu.programs.asked import asked


def main() -> None:
    """Seconds of a step go to `measured.json`."""
    told = asked()
    rounds, steps = (2, 4) if told.small else (40, 20)
    with tempfile.TemporaryDirectory() as folder:
        told.tell(**beside(folder, told.device, told.wait, rounds, steps))


if __name__ == "__main__":
    main()
