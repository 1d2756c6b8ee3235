"""A server of vLLM or SGLang, as far as a client of its profiler sees one, over HTTP; each endpoint can fail.

    with serving("vLLM", folder, odd={"/stop_profile": says(500, "no")}) as server:
        ...server.url, server.calls

`python -m tests.record.serving vLLM FOLDER PORT` runs one until it is interrupted.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import drawn

Act = Callable[[], tuple[int, str]]
"""What the engine does for a request: status and text of its answer."""

Reply = Callable[["Endpoints", Act], object]
"""What is sent instead of the answer; it may do what was asked for, or not."""

WRITINGS = ("whole", "cut", "cut text", "empty", "page", "binary", "another", "none", "slow", "plain")


class Serving(ThreadingHTTPServer):
    """An engine: a thread takes a step each two milliseconds while requests come; ranks write what was recorded.

    Attributes:
        recorded: steps since the profiler began; None while it does not run.
        calls: what was asked of the profiler, with the bodies.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        port: int = 0,
        busy: bool = True,
        ranks: int = 2,
        written: str = "whole",
        odd: Mapping[str, Reply] | None = None,
        facts: Mapping[str, Any] | None = None,
        vllm_info: str = "",
        old: bool = False,
    ) -> None:
        """`busy`: requests come. `written`: what becomes of the files. `odd`: what endpoints answer instead."""
        super().__init__(("127.0.0.1", port), Endpoints)
        self.kind, self.folder, self.busy, self.ranks, self.written = kind, folder, busy, ranks, written
        self.odd, self.facts, self.vllm_info = dict(odd or {}), dict(facts or {}), vllm_info
        self.info = "/get_server_info" if old else "/server_info"
        self.steps, self.recorded, self.wanted, self.by_stage = 1000, None, 0, False
        self.calls: list[tuple[str, Any]] = []
        self.lock, self.over = threading.RLock(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    recorded: int | None

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is no matter."""

    def work(self) -> None:
        while not self.over.wait(0.002):
            with self.lock:
                self.steps += self.busy
                if self.recorded is not None and self.busy:
                    self.recorded += 1
                    if self.wanted and self.recorded >= self.wanted:
                        self.write()

    def write(self) -> None:
        """Stop, and write the traces, as slowly as a real server: each file grows."""
        steps, self.recorded = self.recorded or 0, None
        self.export(steps)

    def export(self, steps: int) -> None:
        if self.written == "none":
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        events = [drawn.op(f"step[DECODE bs={n}]", 1000 * n, 900) for n in range(steps)]
        text = _content(self.written, json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())
        for rank in range(self.ranks):
            for stage in ("-EXTEND", "-DECODE") if self.by_stage else ("",):
                name = f"17-TP-{rank}{stage}" if self.kind == "SGLang" else f"dp0_pp0_tp{rank}_rank{rank}.17.pt"
                with (self.folder / f"{name}.trace.json.gz").open("wb", buffering=0) as file:
                    file.write(text[:20])
                    time.sleep(0.15 if self.written == "slow" else 0.02)
                    file.write(text[20:])

    # --- what it does for a request

    def start(self, body: dict[str, Any] | None) -> tuple[int, str]:
        with self.lock:
            if self.recorded is not None and self.kind == "SGLang":
                return 400, "Profiling is already\nin progress. Call /stop_profile first."
            self.recorded = 0
            if body:
                self.folder, self.wanted = Path(body["output_dir"]), body.get("num_steps", 0)
                self.by_stage = body["profile_by_stage"]
            return 200, "Start profiling.\n"

    def stop(self) -> tuple[int, str]:
        with self.lock:
            if self.recorded is None and self.kind == "SGLang":
                return 500, "Internal Server Error"
            if self.recorded is not None and self.kind == "SGLang":  # which answers first, and exports for a while
                threading.Timer(0.1, self.export, (self.recorded,)).start()
                self.recorded = None
            elif self.recorded is not None:
                self.write()
            return 200, "Stop profiling. This will take some time.\n"

    def says(self, path: str) -> tuple[int, str]:
        if self.kind == "vLLM" and path == "/version":
            return 200, json.dumps({"version": "0.33.0", **self.facts})
        if self.kind == "vLLM" and path == "/metrics":
            lines = ["# TYPE vllm:iteration_tokens_total histogram", 'vllm:iteration_tokens_total_bucket{le="1.0"} 7']
            lines.append(f'vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {self.steps}.0')
            return 200, "\n".join(lines) + "\n"
        if self.kind == "SGLang" and path == self.info:
            facts = {"tp_size": self.ranks, "pp_size": 1, "dp_size": 1, "version": "0.5.23", **self.facts}
            return 200, json.dumps(facts)
        if path == self.vllm_info:
            config = f"ProfilerConfig(profiler='torch', torch_profiler_dir='{self.folder}')"
            return 200, json.dumps({"vllm_config": config})
        return 404, "Not Found"


def _content(written: str, text: bytes) -> bytes:
    packed = gzip.compress(text)
    page = b"<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"
    return {
        "cut": packed[: len(packed) // 2],
        "cut text": gzip.compress(text[: len(text) // 2]),
        "empty": b"",
        "page": page,
        "binary": bytes(range(256)),
        "another": gzip.compress(b'{"requests": []}'),
        "plain": text,
    }.get(written, packed)


class Endpoints(BaseHTTPRequestHandler):
    """What clients of such a server can ask."""

    server: Serving

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def answer(self, status: int, text: str, **headers: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._replied(lambda: self.server.says(self.path))

    def do_POST(self) -> None:
        of = self.server
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(sent) if sent else None
        of.calls.append((self.path, {"token": self.headers["Authorization"], "body": body}))
        acts: dict[str, Act] = {"/start_profile": lambda: of.start(body), "/stop_profile": of.stop}
        self._replied(acts.get(self.path, lambda: (404, "Not Found")))

    def _replied(self, act: Act) -> None:
        self.server.odd.get(self.path, _as_it_is)(self, act)


def _as_it_is(to: Endpoints, act: Act) -> None:
    to.answer(*act())


# --- replies


def says(status: int, text: str = "", *, acts: bool = False, **headers: str) -> Reply:
    """This answer; `acts`: after it has done what was asked for."""

    def reply(to: Endpoints, act: Act) -> None:
        if acts:
            act()
        to.answer(status, text, **headers)

    return reply


def dribbles(*, acts: bool = False, pause: float = 0.05) -> Reply:
    """One byte after the other, for longer than anybody waits."""

    def reply(to: Endpoints, act: Act) -> None:
        if acts:
            act()
        for byte in itertools.chain(b"HTTP/1.1 200 OK\r\nX-Slow: ", itertools.repeat(ord("x"))):
            to.wfile.write(bytes([byte]))
            if to.server.over.wait(pause):
                return

    return reply


def hangs(*, acts: bool = False) -> Reply:
    """No answer at all."""

    def reply(to: Endpoints, act: Act) -> None:
        if acts:
            act()
        to.server.over.wait(30)

    return reply


def drops(*, acts: bool = False) -> Reply:
    """The connection is closed."""

    def reply(to: Endpoints, act: Act) -> None:
        if acts:
            act()
        to.close_connection = True

    return reply


def late(seconds: float) -> Reply:
    """It does what was asked for later, and answers then."""

    def reply(to: Endpoints, act: Act) -> None:
        to.server.over.wait(seconds)
        to.answer(*act())

    return reply


def raw(text: bytes, *, acts: bool = False) -> Reply:
    """These bytes."""

    def reply(to: Endpoints, act: Act) -> None:
        if acts:
            act()
        to.wfile.write(text)
        to.close_connection = True

    return reply


def dies(*, acts: bool = False) -> Reply:
    """The process ends: no answer to this, and no connection from now on."""

    def reply(to: Endpoints, act: Act) -> None:
        if acts:
            act()
        to.server.recorded = None
        to.server.shutdown()
        to.server.socket.close()
        to.close_connection = True

    return reply


def sends(number: int, *, answers: bool = True) -> Reply:
    """A signal reaches this process, which is the client's, once it has done what was asked for."""

    def reply(to: Endpoints, act: Act) -> None:
        answer = act()
        os.kill(os.getpid(), number)
        to.server.over.wait(0.05 if answers else 30)
        with suppress(OSError):
            to.answer(*answer)

    return reply


def after(count: int, then: Reply, until: int = 1 << 30) -> Reply:
    """As it is so many times, then this, and as it is again after `until`."""
    calls = itertools.count()

    def reply(to: Endpoints, act: Act) -> None:
        (then if count <= next(calls) < until else _as_it_is)(to, act)

    return reply


def anew() -> Reply:
    """The server was started again: it counts from 0, and does not record."""

    def reply(to: Endpoints, act: Act) -> None:
        to.server.steps, to.server.recorded = 0, None
        to.answer(*act())

    return reply


@contextmanager
def serving(kind: str, folder: Path, **how: Any) -> Iterator[Serving]:
    """A server until the end of the block."""
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


def main(kind: str, folder: str, port: str = "0") -> None:
    """Serve until interrupted."""
    with serving(kind, Path(folder), port=int(port)) as server, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
