"""Programs of torch, tried in processes of their own: what is kept, what is said of the rest, and what stays."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.compare.trials.tried import TrialRow, Tried, from_json, load
from kinetoscope.errors import InputError, UsageError
from kinetoscope.reading import read
from kinetoscope.trying import runner
from kinetoscope.trying.options import TryOptions, UserVariant
from kinetoscope.trying.progress import TrialProgress, Watch, unwatched
from kinetoscope.trying.session import TrySession

pytestmark = pytest.mark.torch

LOOP = """
import os, sys, time
import torch
torch.manual_seed(int(os.environ.get("SEED", "1")))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=float(os.environ.get("LR", "0.01")))
def step(number):
    time.sleep(float(os.environ.get("NAP", "0.02")))
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    if os.environ.get("FAIL_AT") == str(number):
        raise RuntimeError("the disk caught fire")
    loss.backward()
    optimizer.step()
"""
TRAIN = LOOP + "for number in range(10 ** 9): step(number)\n"


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "train.py"
    path.write_text(text)
    return sys.executable, str(path)


def options(tmp_path: Path, text: str = TRAIN, **more: Any) -> TryOptions:
    given: dict[str, Any] = {"steps": 18, "remember": False, "allow": ("noise",), "timeout": 120.0, **more}
    return TryOptions(command=program(tmp_path, text), folder=str(tmp_path / "try"), **given)


def surveyed(tmp_path: Path, text: str = TRAIN, watch: Watch = unwatched, **more: Any) -> TrySession:
    session = TrySession(options(tmp_path, text, **more), watch)
    session.survey()
    return session


def tried(tmp_path: Path, text: str = TRAIN, watch: Watch = unwatched, **more: Any) -> Tried:
    session = surveyed(tmp_path, text, watch, **more)
    session.measure_noise()
    return session.run()


def setting(text: str) -> UserVariant:
    """Variables of a variant, `NAP=0.01 SEED=2`; those that begin alike exclude each other."""
    return UserVariant(
        name=text, environment=dict(each.split("=") for each in text.split()), group=text.partition("=")[0]
    )


def rows(result: Tried) -> dict[str, TrialRow]:
    return {row.trial: row for row in result.trials}


def refused(tmp_path: Path, text: str, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        tried(tmp_path, text, **more)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_a_program_that_ends_early_is_recorded_all_the_same(tmp_path: Path) -> None:
    text = LOOP.replace("torch.optim.SGD", "torch.optim.Adam") + "for number in range(26): step(number)\n"
    session = surveyed(tmp_path, text, steps=0)
    [trace] = (tmp_path / "try" / "traces" / "baseline").glob("*.pt.trace.json.gz")
    assert read(trace).ranks
    assert not [note for note in session.run().notes if note.code == "NO_RECORDED_WINDOW"]


def test_of_a_program_without_room_for_a_window_it_is_said(tmp_path: Path) -> None:
    result = surveyed(tmp_path, LOOP + "for number in range(14): step(number)\n", steps=0).run()
    assert [note.code for note in result.notes] == ["NO_RECORDED_WINDOW"]
    assert "ends before a window is recorded" in result.notes[0]


def test_each_variant_has_its_outcome_and_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_LIMIT_SECONDS", 30.0)
    monkeypatch.setattr(runner, "_LIMIT_PER_RUN", 0.0)
    hang = "if number == 5 and os.environ.get('HANG'):\n        time.sleep(600)\n    loss.backward()"
    text = TRAIN.replace("loss.backward()", hang)
    heard: list[TrialProgress] = []
    names = ("FAIL_AT=12", "HANG=1", "SEED=2 NAP=0.004", "NAP=0.004", "NAP=0.04", "LR=0.01")
    variants = [setting(each) for each in names]
    result = tried(tmp_path, text, heard.append, variants=variants)
    of = rows(result)
    outcomes = ["failed", "failed", "loss differs", "kept", "slower"]
    assert [of[name].outcome for name in names[:-1]] == outcomes
    assert of[names[-1]].outcome in ("no gain", "slower")  # it changes nothing; a busy machine makes it slower
    assert of["FAIL_AT=12"].why == "it ended with exit code 1: RuntimeError: the disk caught fire"
    assert of["HANG=1"].why == "it was not done after 30 s"
    assert "in step 1" in of["SEED=2 NAP=0.004"].why
    kept = of["NAP=0.004"]
    assert result.kept == ("NAP=0.004",)
    assert (kept.rounds in (5, 8), kept.loss, result.loss) == (True, "equal", "equal")  # 8 on a noisy machine
    assert kept.change is not None
    assert kept.change < -0.3
    assert len([*(tmp_path / "try" / kept.trace).glob("*.pt.trace.json.gz")]) == 1
    assert [*(tmp_path / "try" / "traces" / "baseline").glob("*.pt.trace.json.gz")]
    assert [each.runs for each in heard] == sorted(each.runs for each in heard)
    # The table and the file have each number.
    table = result.result.frame
    assert table.get_column("trial").to_list() == [each.trial for each in result.trials]
    assert table.get_column("brought").to_list() == [each.brought for each in result.trials]
    assert load(tmp_path / "try") == result
    assert from_json(result.to_json()) == result
    # What is there already is not run again.
    again = surveyed(tmp_path, text, variants=variants, resume=True)
    again.measure_noise()
    assert dataclasses.replace(again.run(), seconds=result.seconds) == result
    with pytest.raises(InputError, match="--resume"):
        TrySession(options(tmp_path))
    with pytest.raises(InputError, match="another program"):
        TrySession(options(tmp_path, steps=19, resume=True))


def test_a_gain_without_a_seed_an_interrupt_and_the_time(tmp_path: Path) -> None:
    """Losses say nothing; what was measured when the user has enough is kept; the budget ends it."""
    text = TRAIN.replace('int(os.environ.get("SEED", "1"))', "os.getpid()")

    def interrupt(progress: TrialProgress) -> None:
        if progress.doing.startswith("NAP=0.004 + LR"):
            raise KeyboardInterrupt

    result = tried(tmp_path, text, interrupt, variants=[setting("NAP=0.004"), setting("LR=0.01")])
    assert (result.loss, rows(result)["NAP=0.004"].loss) == ("different", "unknown")
    assert (result.stopped, result.kept) == ("it was interrupted", ("NAP=0.004",))
    assert load(tmp_path / "try") == result
    variants = [setting("NAP=0.004"), setting("LR=0.01")]
    late = surveyed(tmp_path, text, variants=variants, resume=True, budget=0.1)
    late.measure_noise()
    assert rows(late.run())["LR=0.01"].outcome == "no time"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOOP + "for number in range(5): step(number)", "it took 5 steps, and 11 are needed"),
        ("import torch\nprint(torch.ones(1))", "no process took a step"),
        (LOOP + "step(0)\nraise SystemExit('no data')", "it ended with exit code 1: no data"),
        (LOOP + "name = input()", "it ended with exit code 1: EOFError: EOF when reading a line"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        (LOOP + "import atexit, time\nstep(0)\nwhile True: time.sleep(1)", "it was not done after 6 s"),
    ],
)
def test_a_program_that_cannot_be_tried_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text, timeout=6.0 if "while" in text else 120.0)


def test_a_command_or_a_name_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-command: No such file"):
        TrySession(TryOptions(command=("no-such-command",), folder=str(tmp_path / "try"))).survey()
    with pytest.raises(UsageError, match=r"there is no trial 'workerz' .did you mean 'workers'"):
        TrySession(TryOptions(command=("true",), folder=str(tmp_path / "other"), only=("workerz",)))
    with pytest.raises(InputError, match="names another place"):
        TrySession(TryOptions(command=("true",), folder="/dev/null/x"))


def test_a_loop_that_catches_all_ends_and_what_it_started_ends_too(tmp_path: Path) -> None:
    text = (
        LOOP
        + "import atexit, subprocess\n"
        + f"atexit.register(lambda: open({str(tmp_path / 'exit')!r}, 'w'))\n"
        + f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {str(tmp_path)!r}])\n"
        + "number = 0\nwhile True:\n    try:\n        step(number)\n    except:\n        pass\n    number += 1\n"
    )
    surveyed(tmp_path, text)
    assert not (tmp_path / "exit").exists()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        assert not (b"time.sleep(600)" in words and str(tmp_path).encode() in words)


def test_ranks_end_at_the_same_step_and_the_slowest_counts(tmp_path: Path) -> None:
    made = "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))"
    text = TRAIN.replace("import torch\n", "import torch\nimport torch.distributed as dist\n")
    text = text.replace("model = torch.nn.Linear(8, 8)", f"dist.init_process_group('gloo')\nmodel = {made}")
    text = text.replace('os.environ.get("NAP", "0.02")', '"0.03" if dist.get_rank() else "0.001"')
    path = tmp_path / "ranks.py"
    path.write_text(text)
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(path))
    session = TrySession(dataclasses.replace(options(tmp_path), command=command))
    session.survey()
    session.measure_noise()
    result = session.result()
    assert result.ranks == 2
    assert result.step > 0.03e9
    assert len([*(tmp_path / "try" / "traces" / "baseline").glob("*.pt.trace.json.gz")]) == 2


def test_calls_of_a_model_are_steps_where_no_optimizer_steps(tmp_path: Path) -> None:
    text = LOOP.partition("optimizer =")[0] + "while True:\n    time.sleep(0.01)\n    model(torch.ones(1, 8))\n"
    session = surveyed(tmp_path, text)
    session.measure_noise()
    result = session.result()
    assert (result.by_calls, result.loss) == (True, "unknown")
    assert result.step > 0.01e9


def test_a_noisy_machine_is_said_before_a_table_of_chance(tmp_path: Path) -> None:
    count = f"len(os.listdir({str(tmp_path)!r} + '/try/logs'))"
    text = TRAIN.replace("time.sleep(", f"time.sleep((1 + {count} % 3) * ")
    said = refused(tmp_path, text, variants=[setting("NAP=0.005")], allow=())
    assert "nothing can be told on this machine now" in said
    assert os.environ.get("KINETOSCOPE_TRIAL") is None


SERVER = """
import os, time, torch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
model = torch.nn.Linear(8, 8)
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.01)
        with torch.no_grad():
            model(torch.ones(1, 8))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
open({port!r}, "w").write(str(server.server_port))
server.serve_forever()
"""
LOAD = """
import time, urllib.request
while True:
    try:
        urllib.request.urlopen("http://127.0.0.1:" + open({port!r}).read()).read()
    except OSError:
        time.sleep(0.05)
"""


def test_a_server_with_its_load(tmp_path: Path) -> None:
    port = str(tmp_path / "port")
    load = (sys.executable, "-c", LOAD.format(port=port))
    session = surveyed(tmp_path, SERVER.format(port=port), load=load)
    session.measure_noise()
    result = session.result()
    assert (result.by_calls, result.loss) == (True, "unknown")
    assert result.step > 0.01e9
