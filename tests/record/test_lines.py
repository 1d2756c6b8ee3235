"""Each line that the recorder can print is provoked by a test, and is true then: the table is `lines.py`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.cli import main
from kinetoscope.errors import UsageError
from kinetoscope.record.output.finishing_process import FinishingProcess, refused
from kinetoscope.record.output.writing import WindowOutcome, Writer, WriteTask
from kinetoscope.record.serving.recording import ServerPlan, record_server
from tests.conftest import ROOT
from tests.record.jobs import document, recorded, run, sidecar, traces
from tests.record.lines import ELSEWHERE, LINES, UNPROVOKED, UNSAID
from tests.record.processes import environment
from tests.record.processes import run as run_command
from tests.record.programs import TRAIN, kinetoscope
from tests.record.serving import serving

SOURCE = ROOT / "src" / "kinetoscope"
_MIN_WORDS = 3
_UNPRINTED_ARGUMENTS = ("help", "description", "usage", "epilog")


# --- the table ----------------------------------------------------------------------------------------------------


def test_each_sentence_has_a_test_that_provokes_it() -> None:
    known = {*LINES, *UNPROVOKED, *UNSAID}
    sentences = list(_sentences())
    new = [f"{where}: {text!r}" for where, text in sentences if not any(each in text for each in known)]
    assert not new, "lines without a fragment in tests/record/lines.py"
    gone = [each for each in known if not any(each in text for _, text in sentences)]
    assert not gone, "fragments that stand in no line of the recorder"


def test_each_test_of_the_table_is_there_and_looks_for_its_line() -> None:
    for fragment, test in LINES.items():
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / "record" / file).read_text("utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), test
        assert fragment.lower() in text.lower(), (fragment, test)


def _sentences() -> Iterator[tuple[str, str]]:
    """Where, and what: texts of three words and more, with {} for what is filled in; no docs and no help."""
    commands = (SOURCE / "cli" / f"{name}.py" for name in ("record", "trigger", "daemon"))
    for path in (*sorted((SOURCE / "record").rglob("*.py")), *commands):
        where = path.relative_to(SOURCE).as_posix()
        if where.startswith(ELSEWHERE):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        left_out = set(_left_out(tree))
        for node in ast.walk(tree):
            text = "" if id(node) in left_out else _text(node)
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= _MIN_WORDS and " " in text.strip():
                yield f"{where}:{getattr(node, 'lineno', 0)}", text


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return ""


def _left_out(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield id(node.value)  # a docstring
        elif isinstance(node, ast.keyword) and node.arg in _UNPRINTED_ARGUMENTS:
            yield id(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield from map(id, node.values)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument_group":
            yield from map(id, node.args)


# --- a recorder in a program --------------------------------------------------------------------------------------

_WINDOW = "r = Recorder(DIR, RecordOptions(activities=['cpu'], wait_at_exit=WAIT)); r.start_window(0, 9); train()\n"
_SHORT = _WINDOW.replace("WAIT", "1")
_LONG = _WINDOW.replace("WAIT", "60")

SAID = {
    "recording failed in <lambda>: ZeroDivisionError: division by zero; training goes on": (
        "with profile(DIR, wait=0, warmup=0, on_trace_ready=lambda _: 1 / 0) as prof:\n"
        "    for _ in range(4): train(); prof.step()"
    ),
    "step() was never called, so all of the block was recorded, without shapes": ("with profile(DIR): train()"),
    "the schedule failed at step 0: ValueError: no": (
        "def no(_): raise ValueError('no')\nwith profile(DIR, schedule=no): train()"
    ),
    "recording ended early: the block ended before its steps did": (
        "with profile(DIR, wait=0, warmup=0, active=9) as prof: train(); prof.step(); train()"
    ),
    "nothing was recorded: its first step did not come": (
        "with profile(DIR, wait=0, warmup=5) as prof: train(); prof.step(); train()"
    ),
    "trace: ": ("with profile(DIR, wait=0, warmup=0) as prof:\n    for _ in range(4): train(); prof.step()"),
    "recording ended early: it took longer than 0.5 s": (
        "with profile(DIR, wait=0, warmup=0, active=99, options=RecordOptions(max_seconds=0.5)) as prof:\n"
        "    for _ in range(20): train(); time.sleep(0.1); prof.step()"
    ),
    "recording ended early: the recorder was closed": _LONG + "r.close()",
    "recording ended early: the program ended": _LONG,
    "not all traces were written within 0 s: 1 to come": _LONG + "r.step(); r.close(0)",
    "nothing was recorded: a window is running": _LONG + "r.start_window(0, 9)",
    "step() came from another thread than the one that records; it is not counted": (
        _LONG + "thread = threading.Thread(target=r.step); thread.start(); thread.join()"
    ),
    "recording ended early: the thread that recorded ended": (
        "r = Recorder(DIR, RecordOptions(activities=['cpu']))\n"
        "thread = threading.Thread(target=lambda: (r.start_window(0, 9), train())); thread.start(); thread.join()"
    ),
    "the trace was not written: the thread that recorded it came to no end of its step": (
        "r = Recorder(DIR, RecordOptions(activities=['cpu'], wait_at_exit=1))\n"
        "def work(): r.start_window(0, 9); time.sleep(60)\n"
        "threading.Thread(target=work, daemon=True).start(); time.sleep(2)"
    ),
    "the trace was not written: another profiler was started on another thread": (
        "r = Recorder(DIR, RecordOptions(activities=['cpu']))\n"
        "def work(): r.start_window(0, 9); time.sleep(4); r.stop()\n"
        "thread = threading.Thread(target=work); thread.start(); time.sleep(1)\n"
        "with torch.profiler.profile(activities=CPU): train()\n"
        "thread.join()"
    ),
    "the trace was not written: something else stopped torch's profiler": (
        _LONG + "torch.autograd._disable_profiler(); torch.autograd.profiler._is_profiler_enabled = False; r.stop()"
    ),
    "the trace was not written: the disk is full, or torch could not write to it": (
        "import resource\n" + _LONG + "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); r.stop()"
    ),
    "on_done failed: ZeroDivisionError: division by zero": (
        "r = Recorder(DIR); r.start_window(0, 1, lambda _: 1 / 0); train(); r.step(); r.close()"
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("line", SAID)
def test_a_recorder_says_why(tmp_path: Path, line: str) -> None:
    done = run(SAID[line], tmp_path)
    assert any(said.startswith(line) for said in done.said), done.err
    if line == "trace: ":
        assert done.said == [f"trace: {traces(tmp_path)[0]} (next: kinetoscope summary {tmp_path})"]


@pytest.mark.torch
def test_a_window_that_is_asked_for_while_others_are_written_is_skipped(tmp_path: Path) -> None:
    script = """
r = Recorder(DIR, RecordOptions(activities=["cpu"]))
r._delivery.writer._finishing.finish = lambda task: time.sleep(5) or {"status": "failed", "message": "slow"}
for _ in range(5): r.start_window(0, 1); train(); r.step()
r.close(0)
"""
    done = run(script, tmp_path)
    assert "a window was skipped: 4 traces were still being written" in done.said, done.err


@pytest.mark.torch
def test_a_session_that_is_used_wrongly_says_so(tmp_path: Path) -> None:
    script = """
from kinetoscope.record.session.session import ProfilerSession
session = ProfilerSession(RecordOptions(activities=["cpu"]), yielding=lambda: None)
print(session.stop())
session.start()
thread = threading.Thread(target=lambda: print(session.stop())); thread.start(); thread.join()
sys.stdout.flush(); os._exit(0)
"""
    assert run(script, tmp_path).out.splitlines() == ["it does not record", "it was started on another thread"]


# --- what writes --------------------------------------------------------------------------------------------------

TRACE = '{"traceEvents": [\n  {\n    "ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1\n  }\n  ]}'


def _written(folder: Path, text: str = TRACE, keep_free: int = 0) -> WindowOutcome:
    plain, target = folder / "a.part", f"{folder}/a.pt.trace.json.gz"
    plain.write_text(text)
    outcomes: list[WindowOutcome] = []
    writer = Writer(str(folder))
    writer.submit(WriteTask(plain, target, WindowOutcome(None), {}, None, keep_free, on_done=[outcomes.append]))
    assert writer.flush(300)
    return outcomes[0]


def test_a_writer_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _written(tmp_path, keep_free=1 << 60).problem == "The trace was not written: the disk is full."
    broken = TRACE.replace("[\n", '[\n  {\n    "ph": "X", "name": nonsense\n  },\n')
    assert _written(tmp_path, broken).problem == "1 of its events could not be kept."
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert _written(tmp_path).problem == "The trace was not written: the process that writes it failed."
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert refused("memory://a") == "it cannot be tried"
    assert FinishingProcess()._is_waited_for() is False


def test_a_folder_of_others_is_said() -> None:
    script = """
import os, tempfile
from kinetoscope.record.output.writing import Writer
folder = tempfile.mkdtemp()
os.chmod(folder, 0o555)
if os.getuid() == 0: os.setuid(65534)
print(Writer(folder).ready() == f"no permission to write to {folder}", Writer(folder).ready())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.startswith("True"), done.stdout


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "what is to be recorded?"),
        (["--idle", "--every", "5", "--", "true"], "--idle and --every exclude each other"),
        (["--for", "5s", "--idle", "--", "true"], "--for records once, by time"),
        (["--every", "5", "--budget", "x", "--", "true"], "is no share of the time"),
        (["--for", "0s", "--", "true"], "is no time to record"),
        (["-o", "memory://a", "--", "true"], "is the memory of one process"),
        (["-o", "/dev/null/a", "--", "true"], "-o DIR names another place for traces"),
        (["-o", "DIR", "--", "/no/such/program"], "the command behind -- is run as it is"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    with pytest.raises(SystemExit) as end:
        sys.exit(main(["record", *(each.replace("DIR", str(tmp_path)) for each in arguments)]))
    assert end.value.code
    assert line in capsys.readouterr().err


def test_a_server_that_names_no_folder_is_asked_for_one(tmp_path: Path) -> None:
    with (
        serving("vLLM", tmp_path) as server,
        pytest.raises(UsageError, match="vLLM does not say where it writes: -o DIR names the folder"),
    ):
        record_server(ServerPlan(server.url), print)


_OPTIMIZER_ONLY = """
import torch
net = torch.nn.Linear(8, 1)
torch.optim.SGD(net.parameters(), 0.1)
for _ in range(5): net(torch.ones(2, 8))
"""

COMMANDS: dict[str, tuple[list[str], str]] = {
    "nothing was recorded: nobody asked for it": (["--idle"], TRAIN),
    "nothing was recorded: fewer steps than --every": (["--every", "500"], TRAIN),
    "nothing was recorded: the program took fewer than the 104 steps that a window needs; see --active": (
        ["--wait", "100"],
        TRAIN,
    ),
    "nothing was recorded: no range and no module of a class 'nobody' was seen": (["--steps-by", "nobody"], TRAIN),
    "nothing was recorded: no process took a step: no optimizer of torch stepped": ([], "import torch"),
    "nothing was recorded: the program made an optimizer of torch, so its steps were waited for, and it took none": (
        [],
        _OPTIMIZER_ONLY,
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("line", COMMANDS)
def test_the_last_line_says_why_there_is_no_trace(tmp_path: Path, line: str) -> None:
    options, program = COMMANDS[line]
    done = run_command(kinetoscope("record", *options, "-o", tmp_path, "--", sys.executable, "-c", program))
    assert (done.returncode, traces(tmp_path)) == (0, [])
    (said,) = (each for each in done.stderr.splitlines() if each.startswith("kinetoscope: "))
    assert said.startswith(f"kinetoscope: {line}")


_FILLS_THE_DISK = """
import glob, resource, signal, sys, time
import torch
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(10):
    if step == 6:
        while not glob.glob(f"{sys.argv[1]}/*.pt.trace.json.gz"): time.sleep(0.05)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    net(torch.ones(4, 8)).sum().backward(); optimizer.step()
"""


@pytest.mark.torch
def test_a_window_that_could_not_be_written_is_counted_beside_one_that_was(tmp_path: Path) -> None:
    command = kinetoscope("record", "--repeat", "2", "-o", tmp_path, "--", sys.executable, "-c", _FILLS_THE_DISK)
    done = run_command([*command, str(tmp_path)])
    assert (done.returncode, len(traces(tmp_path))) == (0, 1)
    why = "the trace was not written: the disk is full, or torch could not write to it"
    assert f"1 trace in {tmp_path} (of 1 window more there is none: {why})" in done.stderr.splitlines()[-1].replace(
        "The trace", "the trace"
    )


@pytest.mark.torch
@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("raise ValueError('a fault')", 1, "(the program ended with exit code 1)"),
        ("os.kill(os.getpid(), signal.SIGHUP)", 129, "(the program ended by SIGHUP)"),
    ],
)
def test_the_last_line_says_that_the_program_did_not_end_well(tmp_path: Path, end: str, code: int, said: str) -> None:
    for program, why in (
        (f"import torch, os, signal\n{end}", "no process"),
        (f"{TRAIN}\nimport os, signal\n{end}", "the program"),
    ):
        command = kinetoscope("record", "--wait", "100", "-o", tmp_path, "--", sys.executable, "-c", program)
        done = run_command(command)
        assert done.returncode == code
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"kinetoscope: nothing was recorded: {why}")
        assert last.endswith(said), last


@pytest.mark.torch
def test_a_package_of_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "kinetoscope").mkdir()
    (tmp_path / "kinetoscope" / "__init__.py").write_text("")
    (tmp_path / "train.py").write_text(TRAIN)
    done = run_command(kinetoscope("record", "-o", tmp_path / "out", "--", sys.executable, tmp_path / "train.py"))
    why = f"the package kinetoscope in {tmp_path / 'kinetoscope'} is another version"
    assert "nothing is recorded in process" in done.stderr
    assert why in done.stderr.splitlines()[-1]
    assert "no trace was written: nothing is recorded in process" in done.stderr.splitlines()[-1]
    assert done.returncode == 0


_STRANGE = """
import importlib.util, sys
class Loader:
    __slots__ = ("real",)
    def __init__(self, real): self.real = real
    def create_module(self, spec): return self.real.create_module(spec)
    def exec_module(self, module): return self.real.exec_module(module)
class Finder:
    asked = False
    def find_spec(self, name, path=None, target=None):
        if name != "torch" or Finder.asked: return None
        Finder.asked = True
        try: spec = importlib.util.find_spec(name)
        finally: Finder.asked = False
        spec.loader = Loader(spec.loader)
        return spec
sys.meta_path.insert(1, Finder())
"""


@pytest.mark.torch
def test_an_importer_of_another_make_is_said(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_STRANGE)
    given = environment()
    given["PYTHONPATH"] = os.pathsep.join((given["PYTHONPATH"], str(tmp_path)))
    command = kinetoscope("record", "-o", tmp_path / "out", "--", sys.executable, "-c", TRAIN)
    done = run_command(command, env=given)
    assert "torch is not recorded, as it comes from an importer of another make" in done.stderr, done.stderr
    assert done.returncode == 0


# --- a recorded program -------------------------------------------------------------------------------------------

_THREADS = """
import threading, torch
torch.set_num_threads(1)
def train():
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(20): net(torch.ones(4, 8)).sum().backward(); optimizer.step()
threads = [threading.Thread(target=train) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
"""


@pytest.mark.torch
def test_of_threads_that_train_one_is_recorded(tmp_path: Path) -> None:
    done = recorded(_THREADS, tmp_path)
    (trace,) = traces(tmp_path)
    steps = [each["name"] for each in document(trace)["traceEvents"] if each["name"].startswith("ProfilerStep#")]
    assert sorted(steps) == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]
    assert done.said == [
        "several threads train: the steps of one are recorded, and what it runs (--all-threads: of all)"
    ]


@pytest.mark.torch
def test_threads_that_train_in_turns_are_recorded_too(tmp_path: Path) -> None:
    turns = _THREADS.replace("for each in threads: each.start()\nfor each in threads: each.join()", "").replace(
        "range(20)", "range(4)"
    )
    done = recorded(turns + "for each in threads: each.start(); each.join()\n", tmp_path, wait=5)
    assert (len(traces(tmp_path)), done.said) == (1, ["recording ended early: the thread that recorded ended"])


@pytest.mark.torch
def test_a_fault_of_ours_ends_the_recording_and_not_the_program(tmp_path: Path) -> None:
    done = recorded(TRAIN, tmp_path, wait="soon")
    assert any(line.startswith("recording has ended in process") for line in done.said), done.err
    assert (done.code, done.out) == (0, recorded(TRAIN, None).out)


_ASKS = """
import os, pathlib, sys, time
os.environ.update(RANK=<rank>, WORLD_SIZE=<world>)
import torch
from kinetoscope.record.always_on import idle, mailbox
idle._PATIENCE_S = 0.2
control = pathlib.Path(sys.argv[1]) / ".kinetoscope"
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(200):
    net(torch.ones(4, 8)).sum().backward(); optimizer.step()
    if step == 6:
        number = mailbox.ask(control, {})
        START
    if step > 6:
        time.sleep(0.1)
        done = list(mailbox.read_all(control / number, "done.").values())
        if done:
            print(done[0].get("problem"))
            break
"""
_START = 'mailbox.leave(control / number / "start", {"step": 1})'


@pytest.mark.torch
@pytest.mark.parametrize(
    ("world", "start", "plan", "problem"),
    [
        ("1", "pass", {"wait": 4, "active": 500}, "it was recording already"),
        ("2", "mailbox.leave(control / number / 'seen.x', {}); START", {"idle": True}, "it was at step"),
        ("2", "pass", {"idle": True}, "rank 0 did not say at which step to begin"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered(
    tmp_path: Path, world: str, start: str, plan: dict[str, Any], problem: str
) -> None:
    late = f"time.sleep(1); {_START}"
    program = _ASKS.replace("<rank>", repr("1" if world == "2" else "0")).replace("<world>", repr(world))
    program = program.replace("sys.argv[1]", repr(str(tmp_path))).replace(
        "START\n", (late if "START" in start else start) + "\n"
    )
    program = program.replace("idle._PATIENCE_S = 0.2", "" if "START" in start else "idle._PATIENCE_S = 0.2")
    done = recorded(program, tmp_path, **plan)
    assert done.out.startswith(problem), (done.out, done.err)
    assert "already when it read that all begin at step 1" in done.out or world == "1" or "START" not in start


# --- what a program does to itself --------------------------------------------------------------------------------

_DOES = """
import os, shutil, signal, sys, tempfile
import torch
torch.set_num_threads(1)
what, folder = sys.argv[1:]
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(12):
    if what == "leaves" and step == 1:
        gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone)
    if what == "removes" and step == 4: shutil.rmtree(folder)
    if what == "hangs up" and step == 4: os.kill(os.getpid(), signal.SIGHUP)
    net(torch.randn(4, 8)).sum().backward(); optimizer.step()
    if what == "ends" and step == 5: os._exit(0)
"""


@pytest.mark.torch
@pytest.mark.parametrize(("what", "code"), [("leaves", 0), ("removes", 0), ("hangs up", 129), ("", 0)])
def test_the_trace_is_written_whatever_the_program_does_to_folders_and_terminal(
    tmp_path: Path, what: str, code: int
) -> None:
    (tmp_path / "kinetoscope").mkdir()  # no package: a folder on the program's path
    (tmp_path / "work").mkdir()
    script, out = tmp_path / "train.py", tmp_path / "kinetoscope" / "a"
    script.write_text(_DOES)
    active = "9" if what == "hangs up" else "3"
    command = kinetoscope("record", "--active", active, "-o", "../kinetoscope/a", "--", sys.executable, script)
    done = run_command([*command, what, str(out)], cwd=tmp_path / "work")
    (trace,) = traces(out)
    lines = [f"1 trace in {out}; `kinetoscope summary {out}` says where the time goes"]
    if what == "hangs up":
        lines = ["recording ended early: SIGHUP", *lines]
    assert [line for line in done.stderr.splitlines() if line.startswith("kinetoscope: ")] == [
        f"kinetoscope: {line}" for line in lines
    ]
    assert (done.returncode, sidecar(trace)["truncated"]) == (code, "SIGHUP" if code else "")
