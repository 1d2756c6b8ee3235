"""Numbers for trackers of experiments, each by its own client: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final

from kinetoscope.errors import InputError, UsageError
from kinetoscope.integrations.metrics.destinations import Destination
from kinetoscope.integrations.metrics.measures import NS, Sent

_MAX_METRICS: Final = 1000
"""Metrics of one request to a server of MLflow."""

_REPORT: Final = "kinetoscope"
"""Folder, or name, of a report there."""


class TensorBoard:
    """Scalars in an event file of a log folder."""

    def __init__(self, where: str) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if not where:
            raise UsageError("tensorboard: names no folder: tensorboard:logs/run")
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        try:
            self._writer = EventFileWriter(where)
        except OSError as error:
            raise InputError(f"no events for TensorBoard can be written to {where}: {error}") from error

    def send(self, what: Sent) -> None:
        """Write an event for each step."""
        for each in what.steps:
            values = [self._summary.Value(tag=name, simple_value=value) for name, value in each.values.items()]
            summary = self._summary(value=values)
            self._writer.add_event(self._event(wall_time=each.time / NS, step=each.step, summary=summary))
        self._writer.flush()

    def attach(self, report: Path) -> None:
        """No files lie there: the tab of Kinetoscope shows the run itself."""

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class WeightsAndBiases:
    """Metrics of a run, under steps of their own."""

    def __init__(self, where: str) -> None:
        import wandb

        run = where or os.environ.get("WANDB_RUN_ID", "")
        settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
        try:
            self._run = wandb.init(id=run or None, resume="allow" if run else None, settings=settings)
        except wandb.Error as error:
            raise InputError(f"no run of Weights & Biases: {error}") from error
        self._html = wandb.Html
        self._run.define_metric("kinetoscope/step")
        self._run.define_metric("kinetoscope/*", step_metric="kinetoscope/step")

    def send(self, what: Sent) -> None:
        """Log each step."""
        for each in what.steps:
            self._run.log({"kinetoscope/step": each.step, **each.values})

    def attach(self, report: Path) -> None:
        """Log the report as a panel."""
        self._run.log({"kinetoscope/report": self._html(str(report))})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class MlFlow:
    """Metrics of a run on a tracking server (MLFLOW_TRACKING_URI)."""

    def __init__(self, where: str) -> None:
        from mlflow.entities import Metric
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        self._metric, self._client, self._error = Metric, MlflowClient(), MlflowException
        self._run = where or os.environ.get("MLFLOW_RUN_ID", "")
        if not self._run:
            raise UsageError("mlflow names no run: mlflow:RUN_ID, or set MLFLOW_RUN_ID")
        try:
            self._client.get_run(self._run)
        except MlflowException as error:
            raise InputError(f"MLflow has no run {self._run}: {error}") from error

    def send(self, what: Sent) -> None:
        """Log each step, in as few requests as its server takes."""
        metrics = [
            self._metric(name, value, each.time // 1_000_000, each.step)
            for each in what.steps
            for name, value in each.values.items()
            if math.isfinite(value)
        ]
        for first in range(0, len(metrics), _MAX_METRICS):
            self._client.log_batch(self._run, metrics[first : first + _MAX_METRICS])

    def attach(self, report: Path) -> None:
        """Log the report as an artifact."""
        self._client.log_artifact(self._run, str(report), _REPORT)

    def close(self) -> None:
        """Everything is sent."""


_TRACKERS: Final[dict[str, Any]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "mlflow": MlFlow}


def destination(kind: str, where: str) -> Destination:
    """The tracker of a kind: a folder, or a run."""
    tracker: Destination = _TRACKERS[kind](where)
    return tracker
