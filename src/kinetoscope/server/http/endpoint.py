"""From a plain function to an endpoint: work is done in threads, errors become one line with a status."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.to_thread
import polars as pl
from anyio.lowlevel import RunVar
from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kinetoscope.caching import ABANDONED, SharedCache
from kinetoscope.errors import KinetoscopeError, StoppedError
from kinetoscope.server.errors import JSON, RefusedError, refused, status_of
from kinetoscope.server.json_encoding import rows_to_json, to_json
from kinetoscope.server.runs.workspace import Workspace

_MAX_BODY_BYTES: Final = 1 << 20
"""Bytes that a request may bring."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API.

    Attributes:
        path: the parts of the path that are named in the route.
        query: what stands behind the `?`; several values of a key by `getlist`.
        headers: of the request.
        body: what it brings.
    """

    path: Mapping[str, str]
    query: QueryParams
    headers: Headers
    body: bytes = field(default=b"", repr=False)


Work = Callable[[ApiRequest], Response]

T = TypeVar("T")


class JsonResponse(Response, Generic[T]):
    """A `T` as JSON. The signature of an endpoint says so, and `web/generate.py` writes the type for the page."""

    media_type = JSON


def endpoint(workspace: Workspace, work: Work, *, quick: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that does `work` in a thread; `quick` work computes nothing and so never waits for others."""

    @wraps(work)
    async def answer(http: Request) -> Response:
        # A form of another site can send anything but this without asking the browser's leave.
        if http.method == "POST" and http.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return refused(415, "a question is sent as application/json")
        body = b""
        try:
            async for part in http.stream():
                body += part
                if len(body) > _MAX_BODY_BYTES:
                    return refused(413, f"a request can bring {_MAX_BODY_BYTES:,} bytes at most")
        except ClientDisconnect:  # the client has left
            return refused(400, "the question ended early")
        request = ApiRequest(http.path_params, http.query_params, http.headers, body)
        limiter = None if quick else _limiter()
        job = partial(_answered, workspace, work, request, quick)
        abandoned = threading.Event()
        token = ABANDONED.set(abandoned)  # of the thread, too, which runs in a copy of this context
        async with anyio.create_task_group() as group:
            group.start_soon(_watch, http, abandoned)
            # When the server ends it does not wait for what is being computed.
            response = await anyio.to_thread.run_sync(job, limiter=limiter, abandon_on_cancel=True)
            group.cancel_scope.cancel()
        ABANDONED.reset(token)
        return response

    return answer


async def _watch(http: Request, abandoned: threading.Event) -> None:
    """Say so when the client leaves. Whoever asks from within this process never does."""
    message = await http.receive()
    if message["type"] == "http.disconnect":
        abandoned.set()


def json_response(thing: T) -> JsonResponse[T]:
    """`thing` as JSON."""
    return JsonResponse(to_json(thing))


def rows_response(head: T, frame: pl.DataFrame) -> JsonResponse[T]:
    """A dataclass as JSON, with the rows of `frame` as its `rows`."""
    return JsonResponse(rows_to_json(head, frame))


def cached_response(answers: SharedCache[Any], question: Hashable, ask: Callable[[], T]) -> JsonResponse[T]:
    """The answer of `ask` as JSON, from the cache if it is there."""
    return JsonResponse(answers.get(question, lambda: to_json(ask())))


_limiter_of_loop: Final[RunVar[anyio.CapacityLimiter]] = RunVar("limiter")
"""One for each event loop: a report asks from within a request, in a loop of its own."""


def _limiter() -> anyio.CapacityLimiter:
    """Few compute at a time: more would only wait for one another."""
    try:
        return _limiter_of_loop.get()
    except LookupError:
        _limiter_of_loop.set(limiter := anyio.CapacityLimiter(max(4, 2 * (os.cpu_count() or 1))))
        return limiter


def _answered(workspace: Workspace, work: Work, request: ApiRequest, quick: bool) -> Response:
    try:
        if quick:
            return work(request)
        with workspace.asked():
            return work(request)
    except KinetoscopeError as error:
        return refused(status_of(error), str(error), error.hint if isinstance(error, RefusedError) else "")
    except StoppedError:
        return refused(499, "nobody waits for this answer any more")
    except MemoryError:
        return refused(500, "not enough memory", "Fewer steps or ranks need less.")
    except Exception as error:  # noqa: BLE001 - our own mistake is shown on the page, and in full where it runs
        traceback.print_exc(file=sys.stderr)
        return refused(500, f"this is a mistake in Kinetoscope: {type(error).__name__}: {error}")
