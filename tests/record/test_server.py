"""Recording a server that runs: against servers that speak the endpoints of vLLM and SGLang over HTTP, well or not."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.cli import main
from kinetoscope.errors import InputError, UsageError
from kinetoscope.reading import read
from kinetoscope.record.serving import client, recording
from kinetoscope.record.serving.client import ServerClient
from kinetoscope.record.serving.engines import ServingServer, identified
from kinetoscope.record.serving.files import file_problem
from kinetoscope.record.serving.interruption import InterruptedBySignal
from kinetoscope.record.serving.recording import ServerPlan, record_server
from tests.record.processes import environment
from tests.record.programs import kinetoscope, until
from tests.record.serving import (
    Reply,
    Serving,
    after,
    anew,
    dies,
    dribbles,
    drops,
    hangs,
    late,
    raw,
    says,
    sends,
    serving,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SETTLED_SECONDS", 0.05)
    monkeypatch.setattr(recording, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(recording, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(recording, "WRITING_SECONDS", 1.0)
    monkeypatch.setattr(recording, "LATE_SECONDS", 1.0)
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.3)


@pytest.fixture(autouse=True)
def _survives_signals() -> Iterator[None]:
    """What the recording does not catch must not end the tests."""

    def caught(number: int, _: object) -> None:
        raise AssertionError(f"nobody heeded {signal.Signals(number).name}")

    before = {number: signal.signal(number, caught) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def recorded(server: Serving, **how: Any) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    done = record_server(ServerPlan(server.url, **how), lines.append)
    assert done.complete
    return [Path(each).name for each in done.traces], lines


def asked(server: Serving) -> list[str]:
    return [path for path, _ in server.calls]


def who(server: Serving) -> ServingServer:
    return identified(ServerClient(server.url, lambda: None))


# --- a server as it should be ---------------------------------------------------------------------------------------


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
        assert who(server).folder == str(tmp_path)
        assert len(recorded(server, steps=2)[0]) == 2


def test_vllm_by_time(tmp_path: Path) -> None:
    with serving("vLLM", tmp_path, odd={"/metrics": says(404)}) as server:
        assert len(recorded(server, folder=str(tmp_path), steps=0, seconds=0.05)[0]) == 2


@pytest.mark.parametrize("old", [False, True])
def test_sglang_is_told_folder_and_steps_and_stops_by_itself(tmp_path: Path, *, old: bool) -> None:
    with serving("SGLang", tmp_path, old=old) as server:
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


def test_the_key_of_the_server_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(client.TOKEN, "abc\n")
    with serving("SGLang", tmp_path, ranks=1) as server:
        recorded(server, folder=str(tmp_path), steps=1)
        assert server.calls[0][1]["token"] == "Bearer abc"
    monkeypatch.setenv(client.TOKEN, "a\nb")
    with pytest.raises(UsageError, match=rf"^{client.TOKEN} holds characters that no key has$"):
        record_server(ServerPlan(server.url), print)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "localhost:8000", "http://"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UsageError, match=f"^{address} is no address of a server: http://HOST:PORT$"):
        record_server(ServerPlan(address), print)


@pytest.mark.parametrize("address", ["http://127.0.0.1:x", "http://[::1", "http://exa mple", f"http://{'a' * 64}.b"])
def test_an_address_that_leads_nowhere_is_said_in_one_line(address: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(address)}: no server answers: .+"):
        record_server(ServerPlan(address), print)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving("SGLang", tmp_path) as server:
        options = ["--server", server.url, "--steps", "4", "-o", str(tmp_path / "a"), "--with-stack"]
        assert main(["record", *options, "--", "python", "train.py"]) == 2
        assert main(["record", *options]) == 0
        assert server.calls[0][1]["body"]["with_stack"] is True
    said = capsys.readouterr().err
    assert f"kinetoscope: 2 traces in {tmp_path}/a; `kinetoscope summary {tmp_path}/a` says where the time goes" in said
    assert "--server records a server that runs; a command behind -- is run and recorded without it" in said


# --- servers that misbehave -----------------------------------------------------------------------------------------

RECORDS = "recording {amount} of {engine}, into {folder}"
TRACES = "2 traces in {folder}; `kinetoscope summary {folder}` says where the time goes"
NO_STEP = "{url}: no step ran within 0.2 s: send requests while it records, or give it a longer --timeout"
NOT_OFF = (
    "{name} did not confirm that its profiler is off ({why}): it may still record; "
    "`curl -X POST {url}/stop_profile` switches it off"
)
BY_ITSELF = " (SGLang answers so, too, where it had stopped by itself)"
NONE_CAME = "{url}: no trace came into {folder}: "
ELSEWHERE = "{name} writes into another folder or on another machine: copy the traces from there"
UNSURE = "{url}: {name} did not confirm that it records (/start_profile: {why}); as it may, it was told to stop"
OFF = "the profiler of {name} is off; it writes into {folder}"
STRANGER = "{{url}}: neither vLLM nor SGLang: /server_info answers {}, /get_server_info answers {}, /version answers {}"
IN_USE = (
    "{{url}}: SGLang refuses to profile ({}); if nobody records, `curl -X POST {{url}}/stop_profile` ends what was "
    "left on"
)
NO_PROFILER = "{url}: this {name} has no profiler (/start_profile: {why}): "
FLAGS = (
    'start it with --profiler-config \'{{"profiler": "torch", "torch_profiler_dir": "DIR"}}\', or before 0.13 with '
    "VLLM_TORCH_PROFILER_DIR=DIR"
)
CLOSED = "Remote end closed connection without response"
UNCOUNTED = "no count of steps in it"
LATE = "no whole answer within 0.3 s"
FEW = "only {count} of 100000 steps ran within 0.2 s; send more requests, or see --timeout"
FEW_OF_SGLANG = (
    "SGLang had not written the traces of {amount} within 0.2 s, so they may hold fewer; send more requests, or see "
    "--timeout"
)
SILENT = "/metrics tells no steps any more ({why}): ended after {count} of 100000 steps, maybe more"
MANY = ("--steps", "100000")
PATIENT = (*MANY, "--timeout", "9s")
START, STOP, METRICS = "/start_profile", "/stop_profile", "/metrics"


@dataclass(frozen=True)
class Bad:
    """A server that misbehaves, and what is to come of it.

    Attributes:
        name: what it does.
        lines: all that is printed, in order.
        code: the exit code.
        kind: vLLM, unless the case is SGLang's own.
        odd: what its endpoints do instead.
        options: of the command, beside --server, -o and --timeout.
        how: other arguments of `Serving`.
        why: what stands for `{why}` in the lines.
        runs: the profiler runs afterwards: nobody could stop it.
        stops: requests to stop.
    """

    name: str
    lines: tuple[str, ...]
    code: int = 1
    kind: str = "vLLM"
    odd: dict[str, Reply] = field(default_factory=dict)
    options: tuple[str, ...] = ("--steps", "3")
    how: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    runs: bool = False
    stops: int = 1

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        """Each commit tries the ones that the user would miss most."""
        return () if self.name in QUICK else (pytest.mark.slow,)


QUICK = {
    "first answer dribbles",
    "deep JSON",
    "/metrics: a number that is none",
    "/metrics fails in between",
    "500 though it began",
    "somebody records already",
    "no requests",
    "fewer steps than asked for",
    "the stop fails",
    "vLLM writes: cut",
    "SGLang writes: page",
    "SIGTERM while it records",
    "SIGHUP while it records",
}


def _no_server(name: str, why: str, odd: dict[str, Reply], **more: Any) -> Bad:
    return Bad(name, ("{url}: no server answers: {why}",), odd=odd, why=why, stops=0, **more)


def _damaged(written: str, problem: str, kind: str = "vLLM") -> Bad:
    names = ("dp0_pp0_tp0_rank0.17.pt", "dp0_pp0_tp1_rank1.17.pt") if kind == "vLLM" else ("17-TP-0", "17-TP-1")
    lines = (RECORDS, *(f"{{folder}}/{name}.trace.json.gz {problem}" for name in names))
    return Bad(f"{kind} writes: {written}", lines, kind=kind, how={"written": written}, stops=int(kind == "vLLM"))


HTML = "<html><body>no</body></html>"

BAD = [
    # who is it
    _no_server("nobody listens", "[Errno 111] Connection refused", {}, how={"port": -1}),
    _no_server("first answer hangs", LATE, {"/server_info": hangs()}),
    _no_server("first answer dribbles", LATE, {"/server_info": dribbles()}),
    _no_server("no answer at all", CLOSED, {"/server_info": drops()}),
    _no_server("no HTTP", "SSH-2.0-OpenSSH_9.2", {"/server_info": raw(b"SSH-2.0-OpenSSH_9.2\r\n")}),
    Bad(
        "another server",
        (STRANGER.format("404", "404", "404"),),
        kind="another",
        stops=0,
    ),
    Bad(
        "a page for everything",
        (STRANGER.format(*3 * ["something else"]),),
        odd=dict.fromkeys(("/server_info", "/get_server_info", "/version"), says(200, HTML)),
        stops=0,
    ),
    Bad(
        "redirects",
        (STRANGER.format(*3 * ["307: it redirects to https://there/"]),),
        odd=dict.fromkeys(("/server_info", "/get_server_info", "/version"), says(307, Location="https://there/")),
        stops=0,
    ),
    Bad(
        "asks for a key",
        (f"{{url}}: the server asks for a key; {client.TOKEN} in the environment names it",),
        odd=dict.fromkeys(("/server_info", "/get_server_info", "/version"), says(401, '{"error": "Unauthorized"}')),
        stops=0,
    ),
    Bad("deep JSON", (RECORDS, TRACES), code=0, odd={"/server_info": says(200, "[" * 200_000)}),
    Bad("no object", (RECORDS, TRACES), code=0, odd={"/server_info": says(200, "[1, 2]")}),
    Bad(
        "a version that would move the cursor",
        ("recording 3 steps of vLLM \\x1b[2J at {url}, into {folder}", TRACES),
        code=0,
        how={"facts": {"version": "\x1b[2J"}},
    ),
    Bad(
        "a version that is a list",
        ("recording 3 steps of vLLM [1] at {url}, into {folder}", TRACES),
        code=0,
        how={"facts": {"version": [1]}},
    ),
    Bad(
        "odd counts", (RECORDS, TRACES), code=0, kind="SGLang", how={"facts": {"pp_size": "x", "dp_size": -1}}, stops=0
    ),
    # the count of steps
    *(
        Bad(
            f"/metrics: {name}",
            ("{url}: counts no steps at /metrics ({why}); --for 2s records by time",),
            odd={METRICS: reply},
            why=why,
            stops=0,
        )
        for name, why, reply in (
            ("404", "404: without a reason", says(404)),
            ("a number that is none", UNCOUNTED, says(200, "vllm:iteration_tokens_total_count{} 1.2.3.e\n")),
            ("not a number", UNCOUNTED, says(200, "vllm:iteration_tokens_total_count{} NaN\n")),
            ("beyond all numbers", UNCOUNTED, says(200, "vllm:iteration_tokens_total_count{} 1e999\n")),
            ("a page", UNCOUNTED, says(200, HTML)),
            ("hangs", LATE, hangs()),
        )
    ),
    Bad(
        "/metrics is slow",
        (RECORDS, "/metrics is too slow to count 3 steps within 0.2 s, so fewer may have run; see --timeout", TRACES),
        code=0,
        odd={METRICS: after(1, late(0.25))},
    ),
    Bad(
        "/metrics fails in between",
        (RECORDS, SILENT, TRACES),
        code=0,
        odd={METRICS: after(3, says(500, "oops"))},
        options=PATIENT,
        why="500: oops",
    ),
    Bad(
        "/metrics dribbles in between",
        (RECORDS, SILENT, TRACES),
        code=0,
        odd={METRICS: after(3, dribbles())},
        options=PATIENT,
        why=LATE,
    ),
    Bad(
        "/metrics turns to nonsense",
        (RECORDS, SILENT, TRACES),
        code=0,
        odd={METRICS: after(3, says(200, "vllm:iteration_tokens_total_count{} 1.2.3.e\n"))},
        options=PATIENT,
        why=UNCOUNTED,
    ),
    Bad("/metrics fails a few times", (RECORDS, TRACES), code=0, odd={METRICS: after(1, says(503), until=6)}),
    Bad(
        "it is started again",
        (RECORDS, "{url}: counts its steps anew: it was started again while it recorded"),
        odd={METRICS: after(2, anew(), until=3)},
        options=MANY,
    ),
    # the start
    Bad(
        "vLLM without a profiler",
        (RECORDS, NO_PROFILER + FLAGS),
        odd={START: says(404)},
        why="404",
        stops=0,
    ),
    Bad(
        "SGLang without a profiler",
        (RECORDS, NO_PROFILER + "it is too old, or a router stands before it: name the server itself"),
        kind="SGLang",
        why="405",
        odd={START: says(405)},
        stops=0,
    ),
    Bad(
        "somebody records already",
        (
            RECORDS,
            IN_USE.format("400: Profiling is already in progress. Call /stop_profile first."),
        ),
        kind="SGLang",
        odd={START: says(400, "Profiling is already\nin progress. Call /stop_profile first.")},
        stops=0,
    ),
    Bad(
        "somebody records already, and it is an error",
        (
            RECORDS,
            IN_USE.format("500: profiling already started"),
        ),
        kind="SGLang",
        odd={START: says(500, "profiling already started")},
        stops=0,
    ),
    Bad(
        "the start is refused",
        (RECORDS, "{url}: SGLang refuses to profile (422: no such activity)"),
        kind="SGLang",
        odd={START: says(422, "no such activity")},
        stops=0,
    ),
    Bad(
        "the start is refused in an object",
        (RECORDS, '{url}: SGLang refuses to profile (200: {{"success": false, "message": "no"}})'),
        kind="SGLang",
        odd={START: says(200, '{"success": false, "message": "no"}')},
        stops=0,
    ),
    Bad("500 though it began", (RECORDS, UNSURE), odd={START: says(500, acts=True)}, why="500: without a reason"),
    Bad(
        "500 though it began, SGLang",
        (RECORDS, UNSURE),
        kind="SGLang",
        odd={START: says(500, "Internal Server Error", acts=True)},
        why="500: Internal Server Error",
    ),
    Bad(
        "no answer though it began",
        (RECORDS, UNSURE),
        odd={START: drops(acts=True)},
        why=CLOSED,
    ),
    Bad(
        "the start is never answered, though it began",
        (
            RECORDS,
            NOT_OFF.replace("{why}", "/start_profile is not answered yet"),
            UNSURE.replace("{why}", "no whole answer within 0.2 s"),
        ),
        odd={START: hangs(acts=True)},
    ),
    Bad(
        "the start dribbles",
        (
            RECORDS,
            NOT_OFF.replace("{why}", "/start_profile is not answered yet"),
            UNSURE.replace("{why}", "no whole answer within 0.2 s"),
        ),
        odd={START: dribbles(acts=True)},
    ),
    *(
        Bad(f"start and stop answer {status}", (RECORDS, TRACES), code=0, odd=dict.fromkeys((START, STOP), reply))
        for status in (202, 204)
        for reply in [says(status, acts=True)]
    ),
    Bad("the start takes a while", (RECORDS, TRACES), code=0, odd={START: late(0.1)}),
    Bad(
        "it dies at the start",
        (
            RECORDS,
            NOT_OFF.replace("{why}", "/stop_profile: [Errno 111] Connection refused"),
            UNSURE.replace("{why}", CLOSED),
        ),
        odd={START: dies()},
        stops=0,
    ),
    # the steps
    Bad("no requests", (RECORDS, NO_STEP), how={"busy": False}, options=("--steps", "3")),
    Bad("fewer steps than asked for", (RECORDS, FEW, TRACES), code=0, options=MANY),
    Bad("fewer steps than asked for, SGLang", (RECORDS, FEW_OF_SGLANG, TRACES), code=0, kind="SGLang", options=MANY),
    Bad(
        "no requests, SGLang",
        (RECORDS, FEW_OF_SGLANG, NONE_CAME + "no step ran, as no request came, or " + ELSEWHERE),
        kind="SGLang",
        how={"busy": False, "written": "none"},
    ),
    Bad(
        "it dies while it records",
        (
            RECORDS,
            SILENT,
            NOT_OFF.replace("{why}", "/stop_profile: [Errno 111] Connection refused"),
            NONE_CAME + "{name} did not confirm that it stopped, and may write none before it does",
        ),
        odd={METRICS: after(4, dies())},
        options=PATIENT,
        why="[Errno 111] Connection refused",
        stops=0,
    ),
    Bad(
        "it dies while it records, SGLang",
        (
            RECORDS,
            NOT_OFF.replace("{why}", "/stop_profile: [Errno 111] Connection refused"),
            "{url}: SGLang no longer answers: [Errno 111] Connection refused",
        ),
        kind="SGLang",
        odd={"/version": dies()},
        options=PATIENT,
        stops=0,
    ),
    # the stop
    Bad(
        "the stop fails",
        (RECORDS, NOT_OFF, NONE_CAME + "{name} did not confirm that it stopped, and may write none before it does"),
        odd={STOP: says(500, "EngineDeadError")},
        why="/stop_profile: 500: EngineDeadError",
        runs=True,
    ),
    Bad(
        "the stop fails though the traces came",
        (RECORDS, NOT_OFF, TRACES),
        odd={STOP: says(500, acts=True)},
        why="/stop_profile: 500: without a reason",
    ),
    Bad(
        "the stop hangs",
        (RECORDS, NOT_OFF, TRACES),
        odd={STOP: hangs(acts=True)},
        why="/stop_profile: no whole answer within 1 s",
    ),
    Bad(
        "the stop dribbles",
        (RECORDS, NOT_OFF, TRACES),
        odd={STOP: dribbles(acts=True)},
        why="/stop_profile: no whole answer within 1 s",
    ),
    Bad(
        "SGLang had stopped by itself when it was told to",
        (RECORDS, FEW_OF_SGLANG, NOT_OFF + BY_ITSELF, TRACES),
        code=0,
        kind="SGLang",
        odd={STOP: says(500, "Internal Server Error", acts=True)},
        options=MANY,
        why="/stop_profile: 500: Internal Server Error",
    ),
    Bad("the stop takes a while", (RECORDS, TRACES), code=0, odd={STOP: late(0.3)}),
    # the files
    _damaged("cut", "is cut off: its compressed data ends in the midst"),
    _damaged("cut text", "is cut off: it ends in the midst of an event"),
    _damaged("empty", "is cut off: it is empty"),
    _damaged("page", "is an HTML page, no trace"),
    _damaged("binary", "is no trace: it is no JSON"),
    _damaged("another", "is no trace: it has no traceEvents"),
    _damaged("page", "is an HTML page, no trace", kind="SGLang"),
    Bad("text in a file of a compressed name", (RECORDS, TRACES), code=0, how={"written": "plain"}),
    Bad("files that grow slowly", (RECORDS, TRACES), code=0, kind="SGLang", how={"written": "slow"}, stops=0),
    Bad(
        "files elsewhere",
        (RECORDS, NONE_CAME + "{count} steps ran, so " + ELSEWHERE),
        how={"written": "none"},
    ),
    Bad(
        "a rank does not write",
        (
            RECORDS,
            FEW_OF_SGLANG,
            NOT_OFF + BY_ITSELF,
            "2 of 4 traces came: those of the other ranks are missing",
            TRACES,
        ),
        kind="SGLang",
        how={"facts": {"pp_size": 2}},
        why="/stop_profile: 500: Internal Server Error",
    ),
    # signals
    *(
        Bad(
            f"{number.name} {when}",
            (RECORDS, OFF, f"ended by {number.name}"),
            code=128 + number,
            odd={path: after(count, sends(number), until=count + 1)},
            options=MANY,
        )
        for number, path, count, when in (
            *((each, METRICS, 4, "while it records") for each in SIGNALS),
            (signal.SIGTERM, START, 0, "while it starts"),
        )
    ),
    Bad(
        "SIGTERM, and the stop fails",
        (RECORDS, NOT_OFF, "ended by SIGTERM"),
        code=143,
        odd={METRICS: after(4, sends(signal.SIGTERM)), STOP: says(500, "no")},
        options=MANY,
        why="/stop_profile: 500: no",
        runs=True,
    ),
    Bad(
        "SIGTERM while it stops",
        (RECORDS, "ended by SIGTERM"),
        code=143,
        odd={STOP: sends(signal.SIGTERM)},
    ),
    Bad(
        "SIGTERM before it is known", ("ended by SIGTERM",), code=143, odd={"/version": sends(signal.SIGTERM)}, stops=0
    ),
]


def test_quick_ones_are_there() -> None:
    assert {bad.name for bad in BAD} >= QUICK


@pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.name, marks=bad.marks) for bad in BAD])
def test_a_server_that_misbehaves(bad: Bad, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = bad.how.get("port") == -1
    with serving(bad.kind, tmp_path, odd=bad.odd, **({} if refused else bad.how)) as server:
        if refused:
            server.shutdown()
            server.socket.close()
        began = time.monotonic()
        patience = "0.2s" if any("0.2 s" in line for line in bad.lines) else "9s"  # a busy machine is slow
        options = ["--server", server.url, "-o", str(tmp_path), "--timeout", patience, *bad.options]
        code = main(["record", *options])
        took = time.monotonic() - began
        runs, stops = server.recorded is not None, asked(server).count(STOP)
    expected = [f"kinetoscope: {line}" for line in bad.lines]
    amount = "100000 steps" if bad.options[:2] == MANY else "3 steps"
    version = {"vLLM": "0.33.0", "SGLang": "0.5.23"}.get(bad.kind)
    known = {
        "url": server.url,
        "folder": str(tmp_path),
        "amount": amount,
        "name": bad.kind,
        "engine": f"{bad.kind} {version} at {server.url}",
        "why": bad.why,
        "count": "COUNT",
    }
    said = re.sub(r"\b\d+ (steps ran|of 100000 steps)", r"COUNT \1", capsys.readouterr().err).splitlines()
    assert said == [each.format(**known) for each in expected]
    assert (code, runs, stops) == (bad.code, bad.runs, bad.stops)
    assert took < 20


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_command_leaves_no_profiler_running(tmp_path: Path, number: signal.Signals) -> None:
    with serving("vLLM", tmp_path) as server:
        command = kinetoscope("record", "--server", server.url, "-o", tmp_path, "--steps", "100000")
        with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
            until(lambda: server.recorded)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        assert asked(server) == [START, STOP]
        assert server.recorded is None
    assert process.returncode == 128 + number
    assert said.splitlines()[-1] == f"kinetoscope: ended by {number.name}"


def test_a_stop_that_a_signal_cuts_short_says_how_long_it_was_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "WRITING_SECONDS", 60.0)
    lines: list[str] = []
    with (
        serving("vLLM", tmp_path, odd={STOP: sends(signal.SIGTERM, answers=False)}) as server,
        pytest.raises(InterruptedBySignal),
    ):
        record_server(ServerPlan(server.url, folder=str(tmp_path), steps=3), lines.append)
    waited = re.search(r"/stop_profile: no whole answer within ([\d.]+) s", lines[-1])
    assert waited is not None, lines
    assert float(waited[1]) < 20


def test_a_signal_that_is_to_be_ignored_is_ignored(tmp_path: Path) -> None:
    """As nohup asks for."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with serving("vLLM", tmp_path, odd={METRICS: after(2, sends(signal.SIGHUP), until=3)}) as server:
        assert len(recorded(server, folder=str(tmp_path), steps=20)[0]) == 2


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    assert file_problem(str(tmp_path / "a.json")) == "cannot be read: No such file or directory"


def test_damage_within_compressed_data_is_named(tmp_path: Path) -> None:
    import gzip
    import random

    text = bytearray(gzip.compress(b'{"traceEvents": [' + random.Random(0).randbytes(5000).hex().encode() + b"]}"))
    text[2000:2100] = bytes(100)
    (tmp_path / "a.json").write_bytes(text)
    assert file_problem(str(tmp_path / "a.json")).startswith("is damaged: ")
    (tmp_path / "a.json").write_bytes(gzip.compress(b'{"traceEvents": []}') + b"more")
    assert file_problem(str(tmp_path / "a.json")) == "is damaged: something else follows its compressed data"
