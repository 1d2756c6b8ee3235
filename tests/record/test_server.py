"""Recording a server that runs: against servers that speak the documented endpoints of vLLM and SGLang over HTTP."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.cli import main
from kinetoscope.errors import InputError, UsageError
from kinetoscope.reading import read
from kinetoscope.record import server as recording
from kinetoscope.record.server import ServerPlan, identified, record_server
from tests import drawn


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SETTLED_SECONDS", 0.05)
    monkeypatch.setattr(recording, "POLL_SECONDS", 0.005)


class Serving(ThreadingHTTPServer):
    """An engine: a thread takes a step each two milliseconds while requests come; ranks write what was recorded.

    Attributes:
        recorded: steps since the profiler began; None while it does not run.
        calls: what was asked of the profiler, with the bodies.
    """

    def __init__(self, kind: str, folder: Path, *, busy: bool = True, ranks: int = 2, **says: Any) -> None:
        super().__init__(("127.0.0.1", 0), Endpoints)
        self.kind, self.folder, self.busy, self.ranks, self.says = kind, folder, busy, ranks, says
        self.steps, self.recorded, self.wanted, self.by_stage = 1000, None, 0, False
        self.calls: list[tuple[str, Any]] = []
        self.lock, self.over = threading.Lock(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    recorded: int | None

    def work(self) -> None:
        while not self.over.wait(0.002):
            with self.lock:
                self.steps += self.busy
                if self.recorded is not None and self.busy:
                    self.recorded += 1
                    if self.wanted and self.recorded >= self.wanted:
                        self.write()

    def write(self) -> None:
        """The traces, as slowly as a real server: each file grows."""
        steps, self.recorded = self.recorded or 0, None
        self.folder.mkdir(parents=True, exist_ok=True)
        events = [drawn.op(f"step[DECODE bs={n}]", 1000 * n, 900) for n in range(steps)]
        text = gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())
        for rank in range(self.ranks):
            for stage in ("-EXTEND", "-DECODE") if self.by_stage else ("",):
                name = f"17-TP-{rank}{stage}" if self.kind == "SGLang" else f"dp0_pp0_tp{rank}_rank{rank}.17.pt"
                with (self.folder / f"{name}.trace.json.gz").open("wb", buffering=0) as file:
                    file.write(text[:20])
                    time.sleep(0.02)
                    file.write(text[20:])


class Endpoints(BaseHTTPRequestHandler):
    """What clients of such a server can ask."""

    server: Serving

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def answer(self, status: int, content: str | dict[str, Any] = "") -> None:
        text = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        of = self.server
        if of.kind == "vLLM" and self.path == "/version":
            self.answer(200, {"version": "0.33.0"})
        elif of.kind == "vLLM" and self.path == "/metrics" and "metrics" not in of.says:
            lines = ["# TYPE vllm:iteration_tokens_total histogram", 'vllm:iteration_tokens_total_bucket{le="1.0"} 7']
            lines.append(f'vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {of.steps}.0')
            self.answer(200, "\n".join(lines) + "\n")
        elif of.kind == "SGLang" and self.path == of.says.get("info", "/server_info"):
            self.answer(200, {"tp_size": of.ranks, "pp_size": 1, "dp_size": 1, "version": "0.5.23"})
        elif self.path == of.says.get("vllm_info"):
            self.answer(200, {"vllm_config": f"ProfilerConfig(profiler='torch', torch_profiler_dir='{of.folder}')"})
        else:
            self.answer(404, "Not Found")

    def do_POST(self) -> None:
        of = self.server
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(sent) if sent else None
        of.calls.append((self.path, {"token": self.headers["Authorization"], "body": body}))
        with of.lock:
            if "profiler" in of.says and self.path == "/start_profile":
                self.answer(*of.says["profiler"])
            elif self.path == "/start_profile":
                of.recorded = 0
                if body:
                    of.folder, of.wanted = Path(body["output_dir"]), body.get("num_steps", 0)
                    of.by_stage = body["profile_by_stage"]
                self.answer(200, "Start profiling.\n")
            elif self.path == "/stop_profile":
                if of.recorded is not None and of.kind == "SGLang":  # which answers first, and exports for a while
                    threading.Timer(0.5, of.write).start()
                elif of.recorded is not None:
                    of.write()
                self.answer(200, "Stop profiling. This will take some time.\n")
            else:
                self.answer(404, "Not Found")


@contextmanager
def serving(kind: str, folder: Path, **how: Any) -> Iterator[Serving]:
    with Serving(kind, folder, **how) as server:
        serve = partial(server.serve_forever, poll_interval=0.01)
        threads = [threading.Thread(target=each) for each in (serve, server.work)]
        for each in threads:
            each.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            for each in threads:
                each.join()


def recorded(server: Serving, **how: Any) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    return [Path(each).name for each in record_server(ServerPlan(server.url, **how), lines.append)], lines


def asked(server: Serving) -> list[str]:
    return [path for path, _ in server.calls]


def test_vllm_is_started_watched_and_stopped(tmp_path: Path) -> None:
    with serving("vLLM", tmp_path) as server:
        files, lines = recorded(server, folder=str(tmp_path), steps=7)
        assert asked(server) == ["/start_profile", "/stop_profile"]
    assert files == ["dp0_pp0_tp0_rank0.17.pt.trace.json.gz", "dp0_pp0_tp1_rank1.17.pt.trace.json.gz"]
    assert lines == [f"recording 7 steps of vLLM 0.33.0 at {server.url}, into {tmp_path}"]
    job = read(tmp_path)
    assert job.ranks == (0, 1)
    assert len(job.trace(0)) >= 7


def test_vllm_says_its_folder_where_it_is_asked_to(tmp_path: Path) -> None:
    with serving("vLLM", tmp_path, vllm_info="/server_info") as server:
        assert identified(server.url).folder == str(tmp_path)
        assert len(recorded(server, steps=2)[0]) == 2


def test_vllm_by_time(tmp_path: Path) -> None:
    with serving("vLLM", tmp_path, metrics=None) as server:
        with pytest.raises(InputError, match="counts no steps at /metrics; --for 2s records by time"):
            recorded(server, folder=str(tmp_path), steps=2)
        assert len(recorded(server, folder=str(tmp_path), steps=0, seconds=0.05)[0]) == 2


@pytest.mark.parametrize("info", ["/server_info", "/get_server_info"])
def test_sglang_is_told_folder_and_steps_and_stops_by_itself(tmp_path: Path, info: str) -> None:
    with serving("SGLang", tmp_path, info=info) as server:
        files, _ = recorded(server, folder=str(tmp_path / "new"), steps=3)
        assert asked(server) == ["/start_profile"]
        assert server.calls[0][1]["body"] == {
            "output_dir": str(tmp_path / "new"),
            "activities": ["CPU", "GPU"],
            "with_stack": False,
            "record_shapes": True,
            "profile_by_stage": False,
            "detailed_annotations": True,
            "num_steps": 3,
        }
    assert files == ["17-TP-0.trace.json.gz", "17-TP-1.trace.json.gz"]
    assert [len(read(tmp_path / "new").trace(rank)) for rank in (0, 1)] == [3, 3]


def test_sglang_by_stage(tmp_path: Path) -> None:
    with serving("SGLang", tmp_path) as server:
        assert len(recorded(server, folder=str(tmp_path), steps=3, by_stage=True)[0]) == 4


def test_sglang_by_time_is_stopped(tmp_path: Path) -> None:
    with serving("SGLang", tmp_path) as server:
        assert len(recorded(server, folder=str(tmp_path), steps=0, seconds=0.05)[0]) == 2
        assert asked(server) == ["/start_profile", "/stop_profile"]


def test_traces_that_were_there_are_not_taken_for_new_ones(tmp_path: Path) -> None:
    (tmp_path / "16-TP-0.trace.json.gz").write_bytes(b"old")
    with serving("SGLang", tmp_path, ranks=1) as server:
        assert recorded(server, folder=str(tmp_path), steps=1)[0] == ["17-TP-0.trace.json.gz"]


@pytest.mark.parametrize("kind", ["vLLM", "SGLang"])
def test_without_requests_the_profiler_is_stopped(tmp_path: Path, kind: str) -> None:
    with serving(kind, tmp_path, busy=False, ranks=0) as server:
        with pytest.raises(InputError, match=r"no step ran within 0.1 s|no step ran, as no request came"):
            recorded(server, folder=str(tmp_path), steps=2, timeout=0.1)
        assert asked(server)[-1] == "/stop_profile"


def test_whoever_interrupts_leaves_no_profiler_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("vLLM", tmp_path) as server:
        real, calls = recording._steps_of_vllm, iter([False, False, False, True])

        def interrupted(url: str) -> dict[str, float]:
            if next(calls):
                raise KeyboardInterrupt
            return real(url)

        monkeypatch.setattr(recording, "_steps_of_vllm", interrupted)
        with pytest.raises(KeyboardInterrupt):
            recorded(server, folder=str(tmp_path), steps=1000)
        assert asked(server)[-1] == "/stop_profile"
        assert server.recorded is None


@pytest.mark.parametrize(
    ("kind", "answer", "message"),
    [
        ("vLLM", (404, "Not Found"), r"has no profiler \(/start_profile: 404\): start it with --profiler-config"),
        ("SGLang", (404, "Not Found"), "it is too old, or a router stands before it"),
        (
            "SGLang",
            (400, "Profiling is already in\nprogress."),
            r"refuses to profile \(400\): Profiling is already",
        ),
        ("SGLang", (200, '{"success": false, "message": "no"}'), "SGLang refuses to profile"),
    ],
)
def test_a_refusal_is_said(tmp_path: Path, kind: str, answer: tuple[int, str], message: str) -> None:
    with serving(kind, tmp_path, profiler=answer) as server, pytest.raises(InputError, match=message):
        recorded(server, folder=str(tmp_path))
    assert asked(server) == ["/start_profile"]  # whoever records already goes on


def test_what_is_no_server_is_said(tmp_path: Path) -> None:
    with serving("another", tmp_path) as server, pytest.raises(InputError, match="neither vLLM nor SGLang"):
        recorded(server)
    with pytest.raises(InputError, match=r"no server answers: .*refused"):
        record_server(ServerPlan(server.url), print)
    for address in ("file:///etc/passwd", "localhost:8000", "http://"):
        with pytest.raises(UsageError, match="is no address of a server"):
            record_server(ServerPlan(address), print)
    with serving("vLLM", tmp_path) as server, pytest.raises(UsageError, match="-o DIR names the folder"):
        recorded(server)


def test_the_key_of_the_server_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(recording.TOKEN, "abc")
    with serving("SGLang", tmp_path, ranks=1) as server:
        recorded(server, folder=str(tmp_path), steps=1)
        assert server.calls[0][1]["token"] == "Bearer abc"


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving("SGLang", tmp_path) as server:
        options = ["--server", server.url, "--steps", "4", "-o", str(tmp_path / "a"), "--with-stack"]
        assert main(["record", *options]) == 0
        assert server.calls[0][1]["body"]["with_stack"] is True
        assert main(["record", *options, "--", "python", "train.py"]) == 2
    said = capsys.readouterr().err
    assert f"kinetoscope: 2 traces in {tmp_path}/a; `kinetoscope summary {tmp_path}/a` says where the time goes" in said
    assert "--server records a server that runs" in said
