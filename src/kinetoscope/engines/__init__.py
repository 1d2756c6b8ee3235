"""Where work on many ranks runs: one module and one line here an engine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetoscope.engines.worker import Files
    from kinetoscope.model.job import Engine

ENGINES: Final = {
    "threads": "kinetoscope.engines.threads:engine",
    "dask": "kinetoscope.engines.dask:engine",
    "ray": "kinetoscope.engines.ray:engine",
}
"""The function that makes each engine, by name; the first one is the default."""


class EngineMaker(Protocol):
    """The function that an entry of the table names."""

    def __call__(
        self, files: Files, *, address: str | None, jobs: int, ranks: int, progress: Callable[[int], None] | None
    ) -> Engine:
        """The engine.

        Args:
            files: how files are read.
            address: of the cluster; None for what this process is connected to, else one of our own here.
            jobs: traces to work on at once.
            ranks: traces that the job has.
            progress: called with the bytes read since.

        Raises:
            UsageError: the engine has no address.
            MissingExtraError: what it needs is not installed.
            InputError: no cluster answers, no worker comes, or its Python or its version is another.
        """
        ...


def engine_maker(name: str) -> EngineMaker:
    """The function that makes the engine of that name."""
    module, _, function = ENGINES[name].partition(":")
    return cast(EngineMaker, getattr(import_module(module), function))
