"""Planted faults: programs with one thing wrong, their fixed twins, healthy ones, and how well the advisor judges them.

`python -m tests.faults` draws them all, writes docs/planted-faults.md and the calibration plot.
"""

from tests.faults.case import Case, Draw, Healthy, drawing, planted
from tests.faults.program import Program

__all__ = ["Case", "Draw", "Healthy", "Program", "drawing", "planted"]
