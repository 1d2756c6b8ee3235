"""A simulator of training jobs: traces of any number of ranks as Kineto writes them, with the truth beside them.

`simulate(Model(...), folder)` runs a model of a training loop on simulated hosts, devices and links, and writes what a
profiler would have recorded on each rank, in the words of one era of the format. What really happened, in one clock, is
the `Truth`. The same model gives the same bytes.
"""

from tests.simulator.model import CAUSES, DIALECTS, Fault, Model
from tests.simulator.truth import Straggler, Truth, happened, simulate

__all__ = ["CAUSES", "DIALECTS", "Fault", "Model", "Straggler", "Truth", "happened", "simulate"]
