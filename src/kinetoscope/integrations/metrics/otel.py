"""Numbers for OpenTelemetry, by its SDK: OTLP over HTTP, as its variables `OTEL_…` say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from kinetoscope.integrations.metrics.measures import BOUNDS, MEASURES, Measure, Sent


class OpenTelemetry:
    """All instruments of a meter, with the attribute `rank`."""

    def __init__(self, reader: MetricReader) -> None:
        self._provider = MeterProvider([reader], Resource.create())
        meter = self._provider.get_meter("kinetoscope")
        self._instruments = {each.name: _instrument(each, meter) for each in MEASURES}

    def send(self, what: Sent) -> None:
        """Give it to the SDK, which sends it in intervals of its own (OTEL_METRIC_EXPORT_INTERVAL)."""
        for each in what.observed:
            instrument, attributes = self._instruments[each.measure.name], {"rank": each.rank, **each.labels}
            match each.measure.kind:
                case "histogram":
                    instrument.record(each.value, attributes)
                case "counter":
                    instrument.add(each.value, attributes)
                case "gauge":
                    instrument.set(each.value, attributes)

    def attach(self, report: Path) -> None:
        """No files lie there."""

    def close(self) -> None:
        """Send the last interval."""
        self._provider.shutdown()


def _instrument(measure: Measure, meter: Meter) -> Any:
    name = f"kinetoscope.{measure.name}"
    if measure.kind == "histogram":
        return meter.create_histogram(name, measure.unit, measure.doc, explicit_bucket_boundaries_advisory=BOUNDS)
    create = meter.create_counter if measure.kind == "counter" else meter.create_gauge
    return create(name, measure.unit, measure.doc)


def destination(_kind: str, where: str) -> OpenTelemetry:
    """A collector at a URL, or where the variables say."""
    exporter = OTLPMetricExporter(endpoint=where) if where else OTLPMetricExporter()
    return OpenTelemetry(PeriodicExportingMetricReader(exporter))
