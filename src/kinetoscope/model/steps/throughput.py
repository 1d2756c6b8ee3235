"""How many samples a rank got through in its steps, where the training loop told how many each had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Throughput:
    """Samples of this rank, and the device steps that they took.

    Attributes:
        samples: of all these steps.
        steps: how many steps there are that have samples and take time.
        duration: of these steps together, ns.
    """

    samples: int
    steps: int
    duration: int

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples * 1e9 / self.duration


@derived
def throughput(trace: Trace) -> Throughput | None:
    """Samples and time of the steps that the profiler marked and the recorder counted; None where there are none."""
    known = recording(trace)
    found = steps(trace, None)
    if known is None or found.origin != "profiler" or not known.samples:
        return None
    samples = [known.samples.get(number) for number in found.number.tolist()]
    duration = found.device.end - found.device.start
    counted = np.array([each is not None for each in samples], bool) & (duration > 0)
    if not counted.any():
        return None
    total = sum(each or 0 for each, counts in zip(samples, counted.tolist(), strict=True) if counts)
    return Throughput(total, int(np.count_nonzero(counted)), int(duration[counted].sum()))
