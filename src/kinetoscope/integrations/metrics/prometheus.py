"""Numbers for Prometheus: an endpoint that is asked, or a file for the node exporter's folder of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server, write_to_textfile

from kinetoscope.errors import InputError, UsageError
from kinetoscope.integrations.metrics.measures import BOUNDS, MEASURES, Measure, Sent

_UNITS: Final = {"s": "seconds", "By": "bytes"}
_ENDING: Final = ".prom"
_HOST: Final = "127.0.0.1"


class Prometheus:
    """All instruments in a registry of their own, with the label `rank`.

    Attributes:
        port: of the endpoint; 0 for a file.
    """

    def __init__(self, where: str) -> None:
        self._registry = CollectorRegistry()
        self._instruments = {each.name: _instrument(each, self._registry) for each in MEASURES}
        self._file = where if where.endswith(_ENDING) else ""
        self.port = 0
        if not self._file:
            host, _, port = where.rpartition(":")
            if not port.isdecimal():
                raise UsageError(
                    f"prometheus:{where} names no port and no file that ends in {_ENDING}: prometheus:9400"
                )
            try:
                self._server, self._thread = start_http_server(int(port), host or _HOST, self._registry)
            except (OSError, OverflowError) as error:
                raise InputError(f"no endpoint for Prometheus at port {port}: {error}; name another one") from error
            self.port = self._server.server_port

    def send(self, what: Sent) -> None:
        """Bring the instruments up to date, and the file."""
        for each in what.observed:
            instrument = self._instruments[each.measure.name].labels(rank=each.rank, **each.labels)
            match each.measure.kind:
                case "histogram":
                    instrument.observe(each.value)
                case "counter":
                    instrument.inc(each.value)
                case "gauge":
                    instrument.set(each.value)
        if self._file:
            write_to_textfile(self._file, self._registry)

    def attach(self, report: Path) -> None:
        """No files lie there."""

    def close(self) -> None:
        """End the endpoint."""
        if not self._file:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def _instrument(measure: Measure, registry: CollectorRegistry) -> Any:
    name = "_".join(("kinetoscope", *measure.name.split("."), *filter(None, [_UNITS.get(measure.unit)])))
    labels = ("rank", *measure.labels)
    if measure.kind == "histogram":
        return Histogram(name, measure.doc, labels, registry=registry, buckets=BOUNDS)
    made = Counter if measure.kind == "counter" else Gauge
    return made(name, measure.doc, labels, registry=registry)


def destination(_kind: str, where: str) -> Prometheus:
    """The endpoint at a port, or the file."""
    return Prometheus(where)
