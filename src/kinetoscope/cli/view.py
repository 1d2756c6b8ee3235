"""`kinetoscope view PATH...`: the interactive page in a browser: overview, timeline, all tables.

Serves the runs below the paths until Ctrl-C. New runs and new files appear while it runs. By default only this machine
can connect; with --host other machines can, and need the token that is part of the link.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kinetoscope.cli.shared.open_job import reading
from kinetoscope.cli.shared.options import Parser, add_engine, add_reading, typed
from kinetoscope.errors import InputError, NotFoundError, UsageError

if TYPE_CHECKING:
    from kinetoscope.server.app import Server
    from kinetoscope.server.runs.workspace import Workspace

PORT: Final = 7007
"""Tried first, so that a bookmark works; then those after it."""

_TRIED: Final = 20
_QUIET_SECONDS: Final = 3.0
"""Seconds without a question before something that nobody waits for is done."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{8,128}")


def run(arguments: list[str]) -> int:
    """Listen, say where, then read and serve: nothing heavy is imported before the link is there."""
    args = _parser().parse_args(arguments)
    for path in args.path:
        _require_there(path)
    for folder in args.source:
        if not Path(folder).is_dir():
            raise UsageError(f"--source {folder} is no folder")
    listening = _listening(args.host, args.port)
    _end_on_interrupt()
    with listening, contextlib.suppress(KeyboardInterrupt):
        token = args.token or ("" if _only_here(args.host) else _new_token())
        link = _link(args.host, listening.getsockname()[1], token)
        sys.stdout.write(f"Kinetoscope: {link}   (Ctrl-C ends it)\n")
        sys.stdout.flush()
        if args.browser and _has_browser():
            threading.Thread(target=_open, args=(link,), name="kinetoscope-browser", daemon=True).start()
        _serve(args, listening, token)
    _end()
    return 0


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope view", usage="kinetoscope view PATH... [options]", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    group = parser.add_argument_group("server")
    group.add_argument(
        "--port", type=typed(_port), metavar="N", help=f"port to listen on; by default {PORT}, or the next free port"
    )
    group.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (127.0.0.1); 0.0.0.0: all interfaces",
    )
    group.add_argument(
        "--token",
        type=typed(_token),
        metavar="TEXT",
        help="token that the link must contain; by default random with --host",
    )
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another accepted host name, such as that of a proxy",
    )
    group.add_argument("--no-browser", dest="browser", action="store_false", help="print the link, and open no browser")
    group = parser.add_argument_group("source code")
    group.add_argument(
        "--source", action="append", default=[], metavar="DIR", help="let the page show source files below this folder"
    )
    group.add_argument(
        "--map",
        action="append",
        default=[],
        type=typed(_mapping),
        metavar="OLD=NEW",
        help="files that the trace places below OLD are below NEW",
    )
    group.add_argument("--editor", choices=("vscode", "pycharm"), default="", help="editor that opens source files")
    return parser


def _require_there(path: str) -> None:
    """An empty folder is fine, as runs may appear later; a path that does not exist is a mistake."""
    if "://" not in path and not os.path.exists(path):
        import glob

        if not glob.glob(path, recursive=True):
            raise NotFoundError(f"{path}: no such file or folder")


# --- where to listen


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket that takes connections from now on; they wait until the server is there."""
    wanted = [port] if port is not None else [*range(PORT, PORT + _TRIED), 0]
    reason = ""
    for each in wanted:
        try:
            family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), each, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise UsageError(f"--host {host} is no address of this machine: {error.strerror or error}") from error
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
            continue
        return listener
    where = host if port is None else f"{host}, port {port}"
    raise InputError(
        f"cannot listen at {where}: {reason}; "
        + ("is it of this machine?" if port is None else "another --port may be free")
    )


def _only_here(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host.strip("[]") == "::1"


def _new_token() -> str:
    import secrets

    return secrets.token_urlsafe(24)


def _link(host: str, port: int, token: str) -> str:
    name = "localhost" if _only_here(host) else socket.gethostname() if host in ("0.0.0.0", "::") else host
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def _has_browser() -> bool:
    """One with windows: a browser in the terminal would take it."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _open(link: str) -> None:
    import webbrowser

    with contextlib.suppress(Exception):  # the link is printed, too
        webbrowser.open(link)


# --- serving


def _serve(args: argparse.Namespace, listening: socket.socket, token: str) -> None:
    """The page is sent at once, while a thread imports what answers and reads the newest run."""
    answering: Future[Any] = Future()
    workspaces: list[Workspace] = []
    threading.Thread(
        target=_begin, args=(args, bool(token), answering, workspaces), name="kinetoscope-begin", daemon=True
    ).start()
    import uvicorn

    from kinetoscope.server.http.access import Rules
    from kinetoscope.server.http.application import front

    config = uvicorn.Config(
        front(answering.result, Rules(args.host, token, frozenset(args.allow_host))),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # What is broken off because the server ends is no news.
    logging.getLogger("uvicorn.error").addFilter(lambda _: not server.should_exit)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the server has its own meanwhile
    try:
        server.run(sockets=[listening])
    finally:
        for workspace in workspaces:
            workspace.close()


def _begin(args: argparse.Namespace, auth: bool, answering: Future[Any], workspaces: list[Workspace]) -> None:
    try:
        from kinetoscope.server.runs.run import ReadKeywords
        from kinetoscope.server.runs.workspace import Workspace

        workspaces.append(Workspace(tuple(args.path), cast(ReadKeywords, reading(args))))
        workspaces[0].watch()
        # The first run is read while the rest of the server is imported.
        threading.Thread(target=workspaces[0].begin, name="kinetoscope-first", daemon=True).start()
        from kinetoscope.server.app import Server, api
        from kinetoscope.server.source_code import Sources

        server = Server(workspaces[0], Sources.of(args.source, args.map), args.editor, auth)
        answering.set_result(api(server))
    except BaseException as error:  # noqa: BLE001 - the error goes to whoever asks
        answering.set_exception(error)
        return
    _prepare(server)


def _prepare(server: Server) -> None:
    """Answer what the page asks first before it asks; then, when nobody waits, compile what nobody has used yet."""
    from kinetoscope.cli.shared.progress import Meter
    from kinetoscope.cli.warm import compile_all

    server.prepare()

    def between() -> None:
        while not server.workspace.is_idle(_QUIET_SECONDS):
            time.sleep(_QUIET_SECONDS / 4)

    between()
    with contextlib.suppress(Exception):  # what cannot be compiled now is compiled, or fails, when it is asked for
        compile_all(Meter(), between)


def _end_on_interrupt() -> None:
    """Until the server runs, Ctrl-C ends the process at once: an exception in the midst of an import can be lost."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: _end())


def _end() -> None:
    """End at once. Python would wait for the threads that read and compute, and nobody waits for them any more."""
    sys.stdout.flush()
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # temporary files, clusters
    os._exit(0)


# --- words


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is no port: a number from 0 to 65535")
    return int(text)


def _token(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError("a token has 8 to 128 letters, digits and . _ ~ -")
    return text


def _mapping(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise ValueError(f"{text!r} is not OLD=NEW")
    return old, new
