"""The places that numbers can be sent to, by words such as `prometheus:9400` or `tensorboard:logs/a`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from kinetoscope.errors import MissingExtraError, UsageError, nearest

if TYPE_CHECKING:
    from kinetoscope.integrations.metrics.measures import Sent


class Destination(Protocol):
    """A place that numbers go to."""

    def send(self, what: Sent) -> None:
        """Send what came since the last time."""

    def attach(self, report: Path) -> None:
        """Send a report, a page of HTML, if files can lie there."""

    def close(self) -> None:
        """Send what is left."""


_KINDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "prometheus": ("prometheus", "PORT or FILE.prom", "an endpoint, or a file for the node exporter"),
    "otel": ("otel", "URL", "OpenTelemetry by OTLP over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT without a URL"),
    "tensorboard": ("trackers", "DIR", "scalars in a log folder"),
    "wandb": ("trackers", "RUN", "Weights & Biases; WANDB_RUN_ID without a run"),
    "mlflow": ("trackers", "RUN", "MLflow; MLFLOW_RUN_ID without a run"),
}
"""By kind: its module, what may follow the colon, and what it is. A module's `destination(kind, where)` makes it."""

DESTINATIONS: Final = "; ".join(f"{kind}:{where}: {doc}" for kind, (_, where, doc) in _KINDS.items())
"""All of them, for a help text."""


def destination(words: str) -> Destination:
    """The destination that `KIND` or `KIND:WHERE` names.

    Raises:
        UsageError: there is no such kind, or what follows the colon is wrong.
        MissingExtraError: its client library is not installed.
        InputError: it cannot be opened.
    """
    kind, _, where = words.partition(":")
    if kind not in _KINDS:
        raise UsageError(
            f"{kind!r} is no place to send numbers to{nearest(kind, _KINDS)}; there are {', '.join(_KINDS)}"
        )
    try:
        module = import_module(f"kinetoscope.integrations.metrics.{_KINDS[kind][0]}")
        made: Destination = module.destination(kind, where)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"numbers for {kind}", kind) from error
    return made
