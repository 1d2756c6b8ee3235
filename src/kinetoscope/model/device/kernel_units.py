"""Whether each kernel of a trace computes on a matrix unit, each name looked at once."""

from __future__ import annotations

from typing import Final, get_args

import numpy as np

from kinetoscope.algorithms.arrays import Int8s
from kinetoscope.model.device.tensor_cores import MatrixUnit, matrix_unit
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

ANSWERS: Final[tuple[MatrixUnit, ...]] = get_args(MatrixUnit)
YES, NO, UNKNOWN = (ANSWERS.index(answer) for answer in ("yes", "no", "unknown"))


@derived
def kernel_units(trace: Trace) -> Int8s:
    """What the name of each piece of device work tells, a place in `ANSWERS`: int8 [work]."""
    names = trace.name[device_work(trace).rows]
    codes, places = np.unique(names, return_inverse=True)
    answers = np.array([ANSWERS.index(matrix_unit(trace.strings.glance(code))) for code in codes.tolist()], np.int8)
    return answers[places] if len(codes) else answers
