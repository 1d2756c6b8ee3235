"""A real server at a real socket, and a client that sends whatever it is told to."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from kinetoscope.server.app import Server, application
from kinetoscope.server.http.access import Rules
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.source_code import Sources

Query = Mapping[str, Any] | Sequence[tuple[str, str]]

HERE = Rules()


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass(frozen=True)
class Client:
    """Asks the server at a port."""

    port: int
    workspace: Workspace

    def ask(
        self, path: str, query: Query = (), *, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> Answer:
        """Send exactly this path; the names of headers have `_` for `-`."""
        target = path + (f"?{urlencode(query, doseq=True)}" if query else "")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            skip = {"skip_host": True} if "Host" in headers else {}
            connection.putrequest(method, target, skip_accept_encoding=True, **skip)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(body)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        packed = response.headers.get("Content-Encoding") == "gzip"
        return Answer(response.status, response.headers, gzip.decompress(data) if packed else data)

    def get(self, path: str, query: Query = ()) -> Any:
        """The JSON of what must be answered."""
        answer = self.ask(f"/api/{path}", query)
        assert answer.status == 200, answer.body
        return answer.json

    def refused(self, path: str, query: Query = (), **more: Any) -> tuple[int, str]:
        """Status and reason of what must be refused, in one line."""
        answer = self.ask(f"/api/{path}", query, **more)
        assert answer.status >= 400, answer.body
        assert "\n" not in answer.error
        assert "Traceback" not in answer.error
        return answer.status, answer.error

    def sql(self, run: str, text: str, **options: Any) -> Answer:
        body = json.dumps({"query": text, **options}).encode()
        return self.ask(f"/api/runs/{run}/sql", method="POST", body=body, Content_Type="application/json")

    def run(self, name: str = "") -> str:
        """The id of the run of this name, or of the only one."""
        runs = self.get("runs")["runs"]
        (found,) = [run["id"] for run in runs if name in ("", run["name"])]
        return str(found)


class _Server(uvicorn.Server):
    """One that ends at once: uvicorn's looks ten times a second whether it is to end, and then waits as long again."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if not await self.on_tick(0):
            await self._end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for _ in range(3):  # until those are closed
            await asyncio.sleep(0)
        await self._wait_tasks_to_complete()

    def end(self) -> None:
        """Called from another thread, whenever that is."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)


@contextmanager
def serving(
    *paths: Path | str, rules: Rules | None = HERE, sources: Sources | None = None, **options: Any
) -> Iterator[Client]:
    """A server for these paths, in a thread."""
    workspace = Workspace(tuple(map(str, paths)), **options)
    app = application(Server(workspace, sources or Sources()), rules)
    listening = socket.create_server(("127.0.0.1", 0))
    server = _Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Client(listening.getsockname()[1], workspace)
    finally:
        server.end()
        thread.join()
        listening.close()
