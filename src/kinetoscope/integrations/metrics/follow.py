"""The rows of a run that goes on, sent to destinations as they come; what fails there never ends the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Final

import polars as pl

from kinetoscope.integrations.metrics.destinations import Destination
from kinetoscope.integrations.metrics.measures import Sent, observations, scalars
from kinetoscope.model.history.over_ranks import with_gaps

Rows = tuple[pl.DataFrame, pl.DataFrame]
"""New rows of `STEPS` and `MARKS`."""

_EVERY_S: Final = 1.0

_PATIENCE_S: Final = 10.0
"""So long a step waits for ranks that have not ended it."""

_log = logging.getLogger(__name__)


class Sender:
    """Rows on their way to destinations.

    Attributes:
        failures: what went wrong at which destination, once each.
    """

    def __init__(self, destinations: Sequence[Destination]) -> None:
        self._destinations = destinations
        self._last = self._waiting = pl.DataFrame()
        self.failures: dict[str, str] = {}

    def send(self, steps: pl.DataFrame, marks: pl.DataFrame, *, all_of_it: bool = False) -> None:
        """Send new rows; a step goes to trackers when all ranks have ended it, or some wait for long."""
        steps = self._with_gaps(steps)
        observed = list(observations(steps, marks))
        whole = list(scalars(self._whole(steps, all_of_it)))
        if observed or whole:
            self._each(lambda destination: destination.send(Sent(observed, whole)))

    def attach(self, report: Path) -> None:
        """Send a report where files can lie."""
        self._each(lambda destination: destination.attach(report))

    def close(self) -> None:
        """Send what waits."""
        if self._waiting.height:
            whole = list(scalars(self._waiting))
            self._each(lambda destination: destination.send(Sent(steps=whole)))
        self._each(lambda destination: destination.close())

    def _with_gaps(self, steps: pl.DataFrame) -> pl.DataFrame:
        """The rows with their gaps; that of a rank's first row is the one to the last row that came before."""
        known = pl.concat([self._last, steps]) if self._last.height else steps
        self._last = known.sort("start").unique(["rank", "attempt"], keep="last", maintain_order=True)
        return with_gaps(known).tail(steps.height)

    def _whole(self, steps: pl.DataFrame, all_of_it: bool) -> pl.DataFrame:
        waiting = pl.concat([self._waiting, steps]) if self._waiting.height else steps
        if all_of_it or not waiting.height:
            self._waiting = waiting.clear()
            return waiting
        ranks = self._last.group_by("attempt").agg(ranks=pl.len())
        is_whole = pl.len().over("attempt", "step") >= pl.col("ranks")
        is_late = pl.col("end").max().over("attempt", "step") < time.time_ns() - int(_PATIENCE_S * 1e9)
        ready = waiting.join(ranks, "attempt", "left").with_columns(ready=is_whole | is_late).drop("ranks")
        self._waiting = ready.filter(~pl.col("ready")).drop("ready")
        return ready.filter("ready").drop("ready")

    def _each(self, do: Callable[[Destination], None]) -> None:
        for destination in self._destinations:
            name = type(destination).__name__
            try:
                do(destination)
            except Exception as error:  # noqa: BLE001 - a client may raise anything, and the others shall have the rows
                if name not in self.failures:
                    self.failures[name] = str(error)
                    _log.warning("numbers for %s could not be sent: %s", name, error)


class Following:
    """A thread that sends what a source gives, about once a second, until it is ended.

    Args:
        source: of the rows since it was asked last.
        destinations: where they go.
    """

    def __init__(self, source: Callable[[], Rows], destinations: Sequence[Destination]) -> None:
        self._source, self._sender = source, Sender(destinations)
        self._over = Event()
        self._thread = Thread(target=self._follow, name="kinetoscope-numbers", daemon=True)
        self._thread.start()

    def end(self, report: Path | None = None) -> Mapping[str, str]:
        """Send the rest, and a report if there is one. What went wrong, by the name of the destination."""
        self._over.set()
        self._thread.join()
        self._sender.send(*self._source(), all_of_it=True)
        if report is not None:
            self._sender.attach(report)
        self._sender.close()
        return self._sender.failures

    def _follow(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._sender.send(*self._source())
