"""The clocks of hosts: each wrong by an amount of its own that grows steadily."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests.simulator.groups import Ints
from tests.simulator.machine import ORIGIN
from tests.simulator.model import Model


@dataclass(frozen=True)
class Clocks:
    """What clocks show: `offset` (int64, ns) at the beginning of the job, and `rate` more for each ns since.

    Both by host; rank r is on host r // `share`.
    """

    offset: Ints
    rate: NDArray[np.float64]
    share: int

    def read(self, ranks: Ints, time: Ints) -> Ints:
        """What the ranks' clocks show at a time."""
        host = ranks // self.share
        gained = np.rint((time - ORIGIN) * self.rate[host]).astype(np.int64)
        return time + self.offset[host] + gained

    @property
    def frame(self) -> pl.DataFrame:
        """One row for each host."""
        names = [host_name(host) for host in range(len(self.offset))]
        return pl.DataFrame({"host": names, "offset": self.offset, "rate": self.rate})


def clocks(model: Model) -> Clocks:
    """The clocks of a job."""
    random = np.random.default_rng([model.seed, 3])
    offset = random.integers(-model.clock_offset, model.clock_offset + 1, model.hosts)
    rate = random.uniform(-1, 1, model.hosts) * model.clock_drift * 1e-6
    return Clocks(offset, rate, model.ranks_per_host)


def host_name(host: int) -> str:
    """What a host is called."""
    return f"node{host:04d}"
