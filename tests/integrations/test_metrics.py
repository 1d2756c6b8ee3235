"""Numbers of a run that goes on, sent to each destination and read there by its own reader."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest

from kinetoscope.errors import InputError, UsageError
from kinetoscope.integrations.metrics.destinations import Destination, destination
from kinetoscope.integrations.metrics.follow import Following, Sender
from kinetoscope.integrations.metrics.measures import Sent, observations, scalars
from kinetoscope.model.history.over_ranks import slowest, with_gaps
from kinetoscope.model.history.series import MARKS, STEPS

MS = 1_000_000
STEPS_OF_RUN = 5


def steps_of(*ranks: int, first: int = 0, count: int = STEPS_OF_RUN) -> pl.DataFrame:
    """Steps of 10 ms, of rank 1 of 12 ms, with 3 ms between them; data takes 2 ms of each."""
    return STEPS.frame(
        [
            {
                "rank": rank,
                "attempt": 0,
                "step": step,
                "start": 20 * MS * step,
                "end": 20 * MS * step + (10 + 2 * rank) * MS,
                "data": 2 * MS,
                "samples": 4,
                "resident": 1000 + rank,
            }
            for rank in ranks
            for step in range(first, first + count)
        ]
    )


def marks() -> pl.DataFrame:
    return MARKS.frame([{"rank": 0, "attempt": 0, "kind": "save", "step": 2, "start": 0, "end": 500 * MS}])


class Collected:
    """A destination that keeps what it gets; `breaks`: it fails each time."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.sent: list[Sent] = []
        self.breaks = breaks

    def send(self, what: Sent) -> None:
        if self.breaks:
            raise ConnectionError("no route")
        self.sent.append(what)

    def attach(self, report: Path) -> None: ...

    def close(self) -> None: ...


def sent_to(words: str) -> Destination:
    """A destination that has got all steps and marks of two ranks."""
    opened = destination(words)
    steps = with_gaps(steps_of(0, 1))
    opened.send(Sent(list(observations(steps, marks())), list(scalars(steps))))
    return opened


# --- what is sent


def test_a_step_is_that_of_its_slowest_rank() -> None:
    rows = slowest(with_gaps(steps_of(0, 1)))
    assert rows["rank"].to_list() == [1] * STEPS_OF_RUN
    assert rows["difference"].unique().to_list() == [2 * MS]
    assert rows["gap"].to_list() == [None, *[8 * MS] * (STEPS_OF_RUN - 1)]


def test_between_steps_that_overlap_there_is_no_gap() -> None:
    longer = steps_of(0).with_columns(end=pl.col("end") + 15 * MS)
    assert with_gaps(longer)["gap"].to_list() == [None, *[0] * (STEPS_OF_RUN - 1)]


def test_rows_that_come_in_pieces_send_the_same_as_at_once() -> None:
    pieces = [(steps_of(0, count=2), marks()), (steps_of(0, first=2, count=3), MARKS.frame([]))]
    at_once, piecewise = Collected(), Collected()
    for collected, rows in ((at_once, [(steps_of(0), marks())]), (piecewise, pieces)):
        sender = Sender([collected])
        for each in rows:
            sender.send(*each)
        sender.close()
    for part in ("observed", "steps"):
        of_one, of_both = ([each for sent in one.sent for each in getattr(sent, part)] for one in (at_once, piecewise))
        assert sorted(map(str, of_one)) == sorted(map(str, of_both))


def test_a_step_waits_for_ranks_that_have_not_ended_it() -> None:
    collected = Collected()
    sender, now = Sender([collected]), 10**18 * 9  # not late: in the year 2255
    later = steps_of(0, 1).with_columns(pl.col("start") + now, pl.col("end") + now)
    sender.send(later.filter(pl.col("step") == 0), MARKS.frame([]))
    sender.send(later.filter((pl.col("step") == 1) & (pl.col("rank") == 0)), MARKS.frame([]))
    assert [each.step for sent in collected.sent for each in sent.steps] == [0]
    sender.close()
    assert [each.step for sent in collected.sent for each in sent.steps] == [0, 1]


def test_a_destination_that_fails_leaves_the_others_alone() -> None:
    broken, whole = Collected(breaks=True), Collected()
    following = Following(lambda: (steps_of(0, 1), marks()), [broken, whole])
    assert following.end() == {"Collected": "no route"}
    assert len([each for sent in whole.sent for each in sent.steps]) == STEPS_OF_RUN


# --- each destination, by its own reader


def test_prometheus_asks_an_endpoint() -> None:
    pytest.importorskip("prometheus_client", reason="needs prometheus-client")
    opened = sent_to("prometheus:0")
    with urllib.request.urlopen(f"http://127.0.0.1:{opened.port}/metrics") as answer:  # type: ignore[attr-defined]
        text = answer.read().decode()
    opened.close()
    _check_samples(text)


def test_prometheus_reads_a_file(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="needs prometheus-client")
    sent_to(f"prometheus:{tmp_path}/a.prom").close()
    _check_samples((tmp_path / "a.prom").read_text())


def _check_samples(text: str) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    samples = {
        (each.name, *sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }
    assert samples["kinetoscope_steps_total", ("rank", "1")] == STEPS_OF_RUN
    assert samples["kinetoscope_step_duration_seconds_sum", ("rank", "1")] == pytest.approx(0.012 * STEPS_OF_RUN)
    assert samples["kinetoscope_step_part_duration_seconds_total", ("part", "data"), ("rank", "0")] == pytest.approx(
        0.01
    )
    assert samples["kinetoscope_memory_resident_bytes", ("rank", "1")] == 1001
    assert samples["kinetoscope_pause_duration_seconds_count", ("kind", "save"), ("rank", "0")] == 1


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    """An endpoint for OTLP over HTTP, and the requests that it got."""
    proto = pytest.importorskip(
        "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2", reason="needs opentelemetry-sdk"
    )
    requests: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append(proto.ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/metrics", requests
    server.shutdown()
    server.server_close()
    thread.join()


def test_open_telemetry_gets_otlp(collector: tuple[str, list[Any]]) -> None:
    address, requests = collector
    sent_to(f"otel:{address}").close()
    metrics = {
        metric.name: metric
        for request in requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    durations = metrics["kinetoscope.step.duration"]
    assert durations.unit == "s"
    assert {each.count for each in durations.histogram.data_points} == {STEPS_OF_RUN}
    assert sorted(each.sum for each in durations.histogram.data_points) == pytest.approx([0.05, 0.06])
    assert sum(each.as_int for each in metrics["kinetoscope.steps"].sum.data_points) == 2 * STEPS_OF_RUN


@pytest.mark.slow
def test_tensorboard_reads_its_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sent_to(f"tensorboard:{tmp_path}/logs").close()
    events = EventAccumulator(f"{tmp_path}/logs").Reload()
    scalars_there = events.Scalars("kinetoscope/step_seconds")
    assert [each.step for each in scalars_there] == list(range(STEPS_OF_RUN))
    assert [each.value for each in scalars_there] == pytest.approx([0.012] * STEPS_OF_RUN)


@pytest.mark.slow
def test_mlflow_reads_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="needs mlflow-skinny")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/runs")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = tracking.MlflowClient()
    run = client.create_run("0" if client.get_experiment("0") else client.create_experiment("a")).info.run_id
    opened = sent_to(f"mlflow:{run}")
    (tmp_path / "report.html").write_text("<p>")
    opened.attach(tmp_path / "report.html")
    opened.close()
    history = client.get_metric_history(run, "kinetoscope/gap_seconds")
    assert [(each.step, each.value) for each in history] == [
        (step, pytest.approx(0.008)) for step in range(1, STEPS_OF_RUN)
    ]
    assert [each.path for each in client.list_artifacts(run, "kinetoscope")] == ["kinetoscope/report.html"]
    with pytest.raises(InputError, match="MLflow has no run"):
        destination("mlflow:0123456789abcdef0123456789abcdef")


@pytest.mark.slow
def test_weights_and_biases_reads_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs wandb")
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_RUN_ID", raising=False)
    sent_to("wandb").close()
    [file] = tmp_path.rglob("*.wandb")
    deadline, records = time.monotonic() + 30, list[Any]()
    while (
        not (records and records[-1].HasField("exit")) and time.monotonic() < deadline
    ):  # written by a process of its own
        records = [Record.FromString(each) for each in _records_of(file.read_bytes())]
    logged: list[Any] = [
        tuple(float(items[f"kinetoscope/{name}"]) for name in ("step", "step_seconds"))
        for record in records
        if (items := {each.nested_key[0]: each.value_json for each in record.history.item})
    ]
    assert logged == [(step, pytest.approx(0.012)) for step in range(STEPS_OF_RUN)]


def _records_of(data: bytes) -> Iterator[bytes]:
    """Records of LevelDB's log format, behind seven bytes of W&B's own: blocks of 32 KiB, of each piece a head of 7."""
    whole, at, block = b"", 7, 1 << 15
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the whole record, or its last piece
            yield whole
            whole = b""


# --- what is wrong is said in one line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("promethus:1", "did you mean 'prometheus'"),
        ("prometheus:nowhere", "names no port"),
        ("tensorboard", "names no folder"),
    ],
)
def test_words_that_name_nothing(words: str, message: str) -> None:
    pytest.importorskip("prometheus_client", reason="needs prometheus-client")
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    with pytest.raises(UsageError, match=message):
        destination(words)
