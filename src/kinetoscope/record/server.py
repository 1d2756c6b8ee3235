"""Recordings of a server that runs, vLLM's or SGLang's, by the HTTP interface that these have for their own profiler.

vLLM records between `POST /start_profile` and `POST /stop_profile`, into the folder that it was started with, and
counts its steps in `/metrics`. SGLang is told the folder and the number of steps, and stops by itself. Both write one
file a rank. The profiler is never left running: it is stopped if anything goes wrong here.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from kinetoscope.errors import InputError, UsageError

Engine = Literal["vLLM", "SGLang"]

TOKEN: Final = "KINETOSCOPE_SERVER_TOKEN"
"""Variable of the environment with the key that the server asks of its clients, if it does."""

ANSWER_SECONDS: Final = 10.0
"""Seconds in which a server answers what costs it nothing."""

WRITING_SECONDS: Final = 1800.0
"""Seconds in which a server has written its traces: minutes, where Python calls are recorded."""

SETTLED_SECONDS: Final = 2.0
"""Seconds for which files have not grown when they are complete."""

POLL_SECONDS: Final = 0.05
"""Seconds between two looks at the count of steps, and at the folder."""

_MAX_ANSWER_BYTES: Final = 1 << 24
_MAX_REASON_LENGTH: Final = 200
_STEPS_OF_VLLM: Final = re.compile(r"^(vllm:iteration_tokens_total_count(?:\{.*\})?) ([\d.e+]+)$", re.MULTILINE)
"""The histogram of tokens a step has an entry for each step of each engine."""

_FOLDER_OF_VLLM: Final = re.compile(r"torch_profiler_dir['\"]?\s*[=:]\s*['\"]([^'\"]+)['\"]")
_TRACES: Final = (".json", ".json.gz")
_WITHOUT_PROFILER: Final[dict[Engine, str]] = {
    "vLLM": (
        'start it with --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "DIR"}\', or before 0.13 with '
        "VLLM_TORCH_PROFILER_DIR=DIR"
    ),
    "SGLang": "it is too old, or a router stands before it: name the server itself",
}


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What is asked of a server.

    Attributes:
        url: of the server: http://host:port.
        folder: where the traces are to be; "" where the server knows.
        steps: how many to record; 0 to record for `seconds`.
        seconds: how long to record.
        timeout: seconds in which the steps must have run.
        with_stack: record Python calls, which slows the scheduler down.
        shapes: record shapes of inputs.
        by_stage: record prefill and decode apart (SGLang).
    """

    url: str
    folder: str = ""
    steps: int = 5
    seconds: float = 0.0
    timeout: float = 300.0
    with_stack: bool = False
    shapes: bool = True
    by_stage: bool = False


@dataclass(frozen=True, slots=True)
class ServingServer:
    """What a server says of itself.

    Attributes:
        engine: vLLM or SGLang.
        version: its version; "" if it does not say.
        files: traces that it writes on this machine, at least.
        folder: where it writes them, if it says.
    """

    engine: Engine
    version: str = ""
    files: int = 1
    folder: str = ""


def record_server(plan: ServerPlan, say: Callable[[str], object]) -> list[str]:
    """Record, wait until the server has written, and return the paths of the traces.

    say: takes lines about how it goes.

    Raises:
        UsageError: the server does not say where it writes, and no folder is named; or the URL is none.
        InputError: no such server answers, it refuses, or nothing came of it.
    """
    if not re.match(r"https?://[^/]", plan.url):
        raise UsageError(f"{plan.url} is no address of a server: http://HOST:PORT")
    server = identified(plan.url)
    folder = Path(plan.folder or server.folder or _own_folder(server, plan)).absolute()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    before = _sizes(folder)
    what = f"{plan.seconds:g} s" if not plan.steps else f"{plan.steps} step{'s' * (plan.steps != 1)}"
    say(f"recording {what} of {server.engine} {server.version}".rstrip() + f" at {plan.url}, into {folder}")
    if plan.steps and server.engine == "vLLM" and not _steps_of_vllm(plan.url):
        raise InputError(f"{plan.url}: counts no steps at /metrics; --for 2s records by time")
    running = True
    try:
        if refusal := _started(plan, server.engine, folder):
            running = False  # or it would be stopped for whoever records already
            raise InputError(f"{plan.url}: {refusal}")
        if server.engine == "vLLM":
            _await_steps(plan)
        else:
            running = not _stops_by_itself(plan, folder, before, server.files)
    finally:
        if running:
            _stop(plan.url)
    return _awaited(server, plan, folder, before)


def identified(url: str) -> ServingServer:
    """The server at a URL.

    Raises:
        InputError: there is none, or it is neither vLLM nor SGLang.
    """
    for path in ("/server_info", "/get_server_info"):  # the second one of older versions of SGLang
        facts = _facts(url, path)
        if "tp_size" in facts:
            hosts, apart = _count(facts, "nnodes"), bool(facts.get("enable_dp_attention"))
            ranks = _count(facts, "tp_size") * _count(facts, "pp_size") * (1 if apart else _count(facts, "dp_size"))
            return ServingServer("SGLang", str(facts.get("version", "")), max(ranks // hosts, 1))
        if found := _FOLDER_OF_VLLM.search(json.dumps(facts).replace('\\"', '"')):
            return ServingServer("vLLM", str(_facts(url, "/version").get("version", "")), folder=found[1])
    facts = _facts(url, "/version")
    if "version" in facts:
        return ServingServer("vLLM", str(facts["version"]))
    raise InputError(f"{url}: neither vLLM nor SGLang: none of /server_info, /get_server_info and /version answers")


def _own_folder(server: ServingServer, plan: ServerPlan) -> str:
    if server.engine == "SGLang":
        return f"runs/sglang-{time.strftime('%Y%m%d-%H%M%S')}"
    raise UsageError(
        f"{plan.url}: vLLM does not say where it writes: -o DIR names the folder that it was started with "
        "(torch_profiler_dir)"
    )


def _count(facts: Mapping[str, Any], key: str) -> int:
    value = facts.get(key)
    return value if isinstance(value, int) and value > 0 else 1


# --- the two engines


def _await_steps(plan: ServerPlan) -> None:
    """Wait until vLLM has taken the steps, or for the time."""
    begun = _steps_of_vllm(plan.url) if plan.steps else {}
    until = time.monotonic() + (plan.timeout if plan.steps else plan.seconds)
    new = 0
    while time.monotonic() < until and (not plan.steps or new < plan.steps):
        time.sleep(POLL_SECONDS)
        new = _new_steps(begun, _steps_of_vllm(plan.url)) if plan.steps else 0
    if plan.steps and not new:
        raise InputError(
            f"{plan.url}: no step ran within {plan.timeout:g} s: send requests while it records, or give it a longer "
            "--timeout"
        )


def _new_steps(before: Mapping[str, float], now: Mapping[str, float]) -> int:
    """Steps since: of several engines the one that took most."""
    return max((int(count - before.get(series, 0.0)) for series, count in now.items()), default=0)


def _steps_of_vllm(url: str) -> dict[str, float]:
    """The count of steps of each engine; empty where the server counts none."""
    status, text = _asked(url, "/metrics")
    return {line[1]: float(line[2]) for line in _STEPS_OF_VLLM.finditer(text)} if status == 200 else {}


def _stops_by_itself(plan: ServerPlan, folder: Path, before: Mapping[str, int], files: int) -> bool:
    """Whether SGLang stops in time: as many new traces are in the folder as its ranks write, of each stage."""
    until = time.monotonic() + (plan.timeout if plan.steps else plan.seconds)
    while time.monotonic() < until:
        if plan.steps and len(_sizes(folder).keys() - before.keys()) >= files * (1 + plan.by_stage):
            return True
        time.sleep(POLL_SECONDS)
    return False


def _started(plan: ServerPlan, engine: Engine, folder: Path) -> str:
    """Start the profiler; why it refuses, "" if it does not."""
    body: dict[str, Any] = {
        "output_dir": str(folder),
        "activities": ["CPU", "GPU"],
        "with_stack": plan.with_stack,
        "record_shapes": plan.shapes,
        "profile_by_stage": plan.by_stage,
        "detailed_annotations": True,
    } | ({"num_steps": plan.steps} if plan.steps else {})
    sent = body if engine == "SGLang" else None
    status, text = _asked(plan.url, "/start_profile", sent, post=True, timeout=plan.timeout + WRITING_SECONDS)
    if status in (404, 405):
        why = _WITHOUT_PROFILER[engine]
        return f"this {engine} has no profiler (/start_profile: {status}): {why}"
    if status != 200 or '"success":false' in text.replace(" ", "").lower():
        return f"{engine} refuses to profile ({status}): {_reason(text)}"
    return ""


def _stop(url: str) -> None:
    """Stop the profiler; one that has stopped by itself is no error. vLLM answers when it has written its traces."""
    with contextlib.suppress(InputError):
        _asked(url, "/stop_profile", post=True, timeout=WRITING_SECONDS)


# --- the traces


def _awaited(server: ServingServer, plan: ServerPlan, folder: Path, before: Mapping[str, int]) -> list[str]:
    """The new traces, when all are there that are expected and none grows any more.

    vLLM has written them when it says that it has stopped; SGLang only begins then.
    """
    until = time.monotonic() + (WRITING_SECONDS if folder.is_dir() else 0.0)
    last: dict[str, int] = {}
    first = settled = time.monotonic()
    while time.monotonic() < until:
        patience = plan.timeout if server.engine == "SGLang" and (plan.seconds or last) else 5 * SETTLED_SECONDS
        new = {path: size for path, size in _sizes(folder).items() if before.get(path) != size}
        if new != last:
            last, settled = new, time.monotonic()
        quiet = time.monotonic() - settled
        enough = len(new) >= server.files or quiet > patience
        if new and enough and quiet > SETTLED_SECONDS:
            return sorted(new)
        if not new and time.monotonic() - first > patience:
            break
        time.sleep(POLL_SECONDS)
    raise InputError(
        f"{plan.url}: no trace came into {folder}: no step ran, as no request came, or {server.engine} writes into "
        "another folder or on another machine: copy the traces from there"
    )


def _sizes(folder: Path) -> dict[str, int]:
    """The traces in a folder with their sizes."""
    sizes = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_TRACES) and not entry.name.startswith(("server_args", "server_info")):
                with contextlib.suppress(OSError):
                    sizes[entry.path] = entry.stat().st_size
    return sizes


# --- HTTP


def _facts(url: str, path: str) -> dict[str, Any]:
    """The object that a path answers with; empty where it answers with none.

    Raises:
        InputError: nobody answers.
    """
    status, text = _asked(url, path)
    try:
        facts = json.loads(text) if status == 200 else {}
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _asked(
    url: str, path: str, body: Mapping[str, Any] | None = None, *, post: bool = False, timeout: float = ANSWER_SECONDS
) -> tuple[int, str]:
    """Status and text of an answer.

    Raises:
        InputError: nobody answers.
    """
    data = json.dumps(body).encode() if body is not None else b"" if post else None
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url.rstrip("/") + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read(_MAX_ANSWER_BYTES).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read(_MAX_ANSWER_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"{url}: no server answers: {getattr(error, 'reason', None) or error}") from error


def _reason(text: str) -> str:
    return " ".join(text.split())[:_MAX_REASON_LENGTH] or "without a reason"
