"""Object stores on this machine, each a process of its own that speaks the real protocol; and ways to get them wrong.

Four that others wrote: moto and s3rver (S3), gcp-storage-emulator (Google Cloud Storage), Azurite (Azure Blob). The
first and the third come with the dev extra, the others with `make emulators`. And two that are drawn here: a web
server, and a proxy that cuts connections.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's key, which its documentation publishes."""

_GCS = """
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="traces")
server.start()
print("port", server._api._httpd.socket.getsockname()[1], flush=True)
import sys
sys.stdin.read()
"""


@dataclass(frozen=True)
class Store:
    """A running store that has a bucket `traces`.

    Attributes:
        scheme: of its URLs.
        port: where it listens.
        package: what speaks to it.
        options: what the client needs to be told, of which `{port}` is a part.
        environment: the same in variables of the environment.
        wrong: variables that make the credentials wrong; none where the store lets everybody in.
    """

    scheme: str
    port: int
    package: str
    environment: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def at(self, port: int) -> Store:
        """The same store behind a proxy at another port."""
        changed = {name: text.replace(f":{self.port}", f":{port}") for name, text in self.environment.items()}
        options = {
            name: text.replace(f":{self.port}", f":{port}") if isinstance(text, str) else text
            for name, text in self.options.items()
        }
        return Store(self.scheme, port, self.package, changed, options, self.wrong)


def s3(port: int, key: str, secret: str, *, refuses: bool) -> Store:
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    wrong = {"AWS_ACCESS_KEY_ID": "NOBODY", "AWS_SECRET_ACCESS_KEY": "nothing"} if refuses else {}
    return Store("s3", port, "s3fs", environment, wrong=wrong)


@contextmanager
def moto() -> Iterator[Store]:
    require("moto", "flask")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with served(command, r"Running on http://127\.0\.0\.1:(\d+)") as port:
        yield s3(port, "test", "test", refuses=False)


@contextmanager
def s3rver(folder: Path) -> Iterator[Store]:
    command = [tool("s3rver"), "-d", str(folder), "-a", "127.0.0.1", "-p", "0", "--configure-bucket", "traces"]
    with served(command, r"listening on 127\.0\.0\.1:(\d+)") as port:
        yield s3(port, "S3RVER", "S3RVER", refuses=True)


@contextmanager
def gcs() -> Iterator[Store]:
    require("gcp_storage_emulator")
    with served([sys.executable, "-c", _GCS], r"port (\d+)") as port:
        yield google(port)


def google(port: int) -> Store:
    environment = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}
    return Store("gs", port, "gcsfs", environment, {"token": "anon", "project": "test"})


@contextmanager
def azurite(folder: Path) -> Iterator[Store]:
    command = [tool("azurite-blob"), "--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort", "0"]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    with served(command, r"listens on http://127\.0\.0\.1:(\d+)") as port:
        yield azure(port)


def azure(port: int) -> Store:
    account = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={};"
    account += f"BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
    right = {"AZURE_STORAGE_CONNECTION_STRING": account.format(AZURITE_KEY)}
    wrong = {"AZURE_STORAGE_CONNECTION_STRING": account.format("bm90aGluZw==")}
    return Store("abfs", port, "adlfs", right, wrong=wrong)


def require(*modules: str) -> None:
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install -e '.[dev]' installs it")


def tool(name: str) -> str:
    """Where a program of npm's is."""
    here = Path(sys.prefix) / "emulators" / "node_modules" / ".bin"
    found = shutil.which(name) or shutil.which(name, path=str(here))
    if found is None or shutil.which("node") is None:
        pytest.skip(f"needs {name}, which `make emulators` installs where Node.js is")
    return found


@contextmanager
def served(command: list[str], ready: str) -> Iterator[int]:
    """A server process, and the port that it says it listens at."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if match := re.search(ready, line):
                # somebody has to read on, or the server stops when the pipe is full
                threading.Thread(target=process.stdout.read, daemon=True).start()
                yield int(match[1])
                return
        pytest.fail(f"{command[0]} did not start: {''.join(said)}")
    finally:
        process.kill()
        process.communicate()


# --- a web server and a proxy


@dataclass
class Web:
    """Files served by HTTP.

    Attributes:
        files: content by path.
        ranges: does it heed them?
        cut: break the first answer off after so many bytes.
        status: what it answers, 0 for what is right.
        tag: the ETag of its answers.
        tags: the ones that it has after each cut.
        asked: the range of each request for a file, "" for all of it.
    """

    files: dict[str, bytes]
    ranges: bool = True
    cut: int = 0
    status: int = 0
    tags: list[str] = field(default_factory=list)
    tag: str = '"one"'
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @contextmanager
    def running(self) -> Iterator[str]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            _answer(self, web)

        def do_GET(self) -> None:
            _answer(self, web)

    return Handler


def _answer(request: BaseHTTPRequestHandler, web: Web) -> None:
    path = request.path.partition("?")[0]
    if path.endswith("/"):
        links = "".join(f'<a href="{name[len(path) :]}">x</a>' for name in web.files if name.startswith(path))
        _send(request, web, 200, links.encode(), "text/html")
    elif web.status or path not in web.files:
        _send(request, web, web.status or 404, b"")
    else:
        _send_file(request, web, web.files[path])


def _send_file(request: BaseHTTPRequestHandler, web: Web, content: bytes) -> None:
    wanted = request.headers.get("Range", "")
    begin = int(re.sub(r"bytes=(\d+)-.*", r"\1", wanted)) if wanted and web.ranges else 0
    cut = 0
    if request.command == "GET":
        web.asked.append(wanted)
        cut, web.cut = web.cut, 0
    _send(request, web, 206 if begin else 200, content[begin:], cut=cut)
    if cut and web.tags:
        web.tag = web.tags.pop(0)


def _send(
    request: BaseHTTPRequestHandler, web: Web, status: int, content: bytes, kind: str = "application/gzip", cut: int = 0
) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(content)))
    request.send_header("Content-Type", kind)
    request.send_header("ETag", web.tag)
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(content[: cut or None])
    if cut:
        request.wfile.flush()
        request.connection.shutdown(socket.SHUT_RDWR)
        request.close_connection = True


@dataclass
class Proxy:
    """Passes a port on, and cuts connections after so many bytes of what comes back: the first ones that have as many.

    Attributes:
        port: where it leads.
        after: bytes that it lets pass.
        cuts: how many connections it cuts.
        happened: how many it has cut.
    """

    port: int
    after: int
    cuts: int = 1
    happened: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[int]:
        listening = socket.create_server(("127.0.0.1", 0))
        open_: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listening.accept()
                    far = socket.create_connection(("127.0.0.1", self.port))
                    open_.extend((near, far))
                    start(partial(self._pass, near, far, lambda _: False))
                    start(partial(self._pass, far, near, self._is_enough))

        start(accept)
        try:
            yield listening.getsockname()[1]
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            for each in open_:
                _closed(each)

    def _is_enough(self, passed: int) -> bool:
        with self.lock:
            if passed <= self.after or self.happened == self.cuts:
                return False
            self.happened += 1
            return True

    def _pass(self, source: socket.socket, target: socket.socket, is_enough: Callable[[int], bool]) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                passed += len(data)
                if is_enough(passed):
                    break
                target.sendall(data)
        _closed(source)
        _closed(target)


def start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _closed(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
