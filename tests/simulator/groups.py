"""Process groups of a job: who is in which, and what they are called."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tests.simulator.model import Model

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Family:
    """Groups for one purpose, which no two share a rank of.

    Attributes:
        purpose: "dp", "tp", …
        description: what the trace says of each.
        ranks: int64 [groups, size].
        names: of each group.
        stream: on which its collectives run.
    """

    purpose: str
    description: str
    ranks: Ints
    names: tuple[str, ...]
    stream: int

    @cached_property
    def members(self) -> Ints:
        """Ranks in ascending order."""
        return np.sort(self.ranks, axis=None)

    @property
    def size(self) -> int:
        return int(self.ranks.shape[1])

    def of(self, ranks: Ints) -> Ints:
        """Which group each of the ranks is in."""
        where = np.full(int(self.ranks.max()) + 1, -1)
        where[self.ranks.ravel()] = np.repeat(np.arange(len(self.ranks)), self.size)
        return where[ranks]


def families(model: Model) -> dict[str, Family]:
    """The process groups by their purpose: `world`, and those of which the model makes use."""
    mesh = np.arange(model.ranks).reshape(model.pipeline, model.data, model.tensor)
    wanted = {"world": mesh.reshape(1, -1)}
    if model.data > 1:
        wanted["dp"] = mesh.transpose(0, 2, 1).reshape(-1, model.data)
    if model.tensor > 1:
        wanted["tp"] = mesh.reshape(-1, model.tensor)
    if model.expert > 1:
        wanted["ep"] = wanted["dp"].reshape(-1, model.expert)
    if model.pipeline > 1:
        wanted["pp"] = mesh.reshape(model.pipeline, -1).T
    if model.single:
        wanted["single"] = mesh.reshape(-1, 1)
    found: dict[str, Family] = {}
    count = 0
    for purpose, ranks in wanted.items():
        ranks = np.ascontiguousarray(ranks)
        names = _names(model, purpose, ranks, count)
        description = "default_pg" if purpose == "world" else f"mesh_{purpose}"
        found[purpose] = Family(purpose, description, ranks, names, 20 + 4 * len(found))
        count += len(ranks)
    return found


def _names(model: Model, purpose: str, ranks: Ints, before: int) -> tuple[str, ...]:
    if purpose == "world":
        return ("0",)
    if model.names == "hash":
        return tuple(hashlib.sha1(str(group).encode()).hexdigest() for group in ranks.tolist())
    if model.names == "purpose":
        return (f"mesh_{purpose}",) * len(ranks)
    return tuple(str(before + place) for place in range(len(ranks)))
