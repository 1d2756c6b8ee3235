"""Recordings on demand: by the command, by a file, by a signal; one process, and ranks that must agree."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.always_on.idle import RankProcess, RequestWatch, agreed_window
from tests.record.processes import ended_here, environment, run
from tests.record.programs import TRAIN, kinetoscope, names, python, sidecars, steps, traces, until


class Ranks:
    """Watches of several ranks over one folder, each with a loop that only counts."""

    def __init__(self, folder: Path, seconds: Sequence[float]) -> None:
        self.ended = [0] * len(seconds)
        self.began: list[list[int]] = [[] for _ in seconds]
        self.over = False
        self.watches = [self.watch(rank, folder, seconds) for rank in range(len(seconds))]
        self.threads = [threading.Thread(target=self.loop, args=(rank, each)) for rank, each in enumerate(seconds)]

    def watch(self, rank: int, folder: Path, seconds: Sequence[float]) -> RequestWatch:
        who = RankProcess(rank, len(seconds), 1000 + rank, "here")
        control = folder / ".kinetoscope"
        return RequestWatch(who, run=str(folder), control=control, clock=lambda: (self.ended[rank], seconds[rank]))

    def loop(self, rank: int, seconds: float) -> None:
        watch = self.watches[rank]
        while not self.over:
            time.sleep(seconds)
            self.ended[rank] += 1
            agreed = watch.agreed
            if agreed is not None and (agreed.step is None or self.ended[rank] >= agreed.step):
                watch.agreed = None
                self.began[rank].append(self.ended[rank])
                late = agreed.step is not None and self.ended[rank] > agreed.step
                watch.done(agreed.number, {"problem": "late"} if late else {"path": f"rank{rank}"})

    def __enter__(self) -> Ranks:
        for watch in self.watches:
            watch.start()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for watch in self.watches:
            watch.stop()
        for thread in self.threads:
            thread.join()


def answers(folder: Path, number: str, count: int) -> dict[str, mailbox.MailboxNote]:
    """What so many ranks said came of a request."""
    control = folder / ".kinetoscope"
    until(lambda: len(mailbox.read_all(control / number, "done.")) == count)
    return mailbox.read_all(control / number, "done.")


@pytest.mark.slow
def test_all_ranks_begin_at_the_same_step(tmp_path: Path) -> None:
    with Ranks(tmp_path, [0.01, 0.01, 0.011, 0.01]) as ranks:
        for _ in range(2):
            done = answers(tmp_path, mailbox.ask(tmp_path / ".kinetoscope", {"steps": 2}), 4)
            assert [note.get("problem") for note in done.values()] == [None] * 4
        first, *others = ranks.began
        assert len(first) == 2
        assert all(each == first for each in others)


def test_a_rank_that_has_gone_too_far_says_so(tmp_path: Path) -> None:
    """Ranks that nothing holds together: the second goes on a thousand steps at once, when both have read it."""
    control = tmp_path / ".kinetoscope"
    with Ranks(tmp_path, [0.02, 0.02]) as ranks:
        until(lambda: min(ranks.ended) > 2)
        number = mailbox.ask(control, {})
        until(lambda: len(mailbox.read_all(control / number, "seen.")) == 2)
        while ranks.ended[1] < 1000:
            ranks.ended[1] += 1000
        done = answers(tmp_path, number, 2)
    assert [(note["rank"], note.get("problem")) for note in done.values()] == [(0, None), (1, "late")]


@pytest.mark.slow
def test_a_request_of_before_this_process_is_nothing_to_it(tmp_path: Path) -> None:
    control = tmp_path / ".kinetoscope"
    number = mailbox.ask(control, {})
    mailbox.leave(control / number / "start", {"step": 10**6, "ranks": [0, 1]})
    with Ranks(tmp_path, [0.01, 0.01]) as ranks:
        time.sleep(1)
    assert ranks.began == [[], []]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"id": 5}', '{"id": "../../x"}', '{"id": "a", "steps": "x"}'])
def test_odd_notes_do_no_harm(tmp_path: Path, text: str) -> None:
    control = tmp_path / ".kinetoscope"
    control.mkdir()
    (control / "request").write_text(text)
    with Ranks(tmp_path, [0.01]) as ranks:
        time.sleep(0.5)
        (control / "request").unlink()
        number = mailbox.ask(control, {"steps": 1})
        until(lambda: mailbox.read_all(control / number, "done."))
    assert len(ranks.began[0]) in (1, 2)
    assert not (tmp_path.parent / "x").exists()


def test_a_request_is_put_right() -> None:
    agreed = agreed_window({"id": "a", "steps": -5, "warmup": True, "with_stack": True, "dir": "/", "took": "x"}, 7)
    assert (agreed.number, agreed.step, agreed.active, agreed.warmup, agreed.took) == ("a", 7, 1, 1, 0.0)
    assert agreed.options == {"with_stack": True}
    assert agreed_window({"steps": 10**9}, None).active == 1000


GONE = 2**22 + 1
"""No process has this number."""


@contextlib.contextmanager
def answering(folder: Path, done: Sequence[Mapping[str, object]], alive: bool = True) -> Iterator[None]:
    """A job of so many ranks, each of which says this of the next request."""
    control, host = folder / ".kinetoscope", socket.gethostname()
    ranks = range(max(len(done), 1))
    for rank in ranks:
        about = {"rank": rank, "pid": os.getpid() if alive else GONE, "host": host}
        mailbox.leave(control / "ranks" / str(rank), about)

    def answer() -> None:
        until(lambda: mailbox.read(control / "request"))
        number = (mailbox.read(control / "request") or {})["id"]
        mailbox.leave(control / number / "start", {"step": 7, "ranks": list(ranks)})
        time.sleep(0.3)
        for rank, note in enumerate(done):
            mailbox.leave(control / number / f"done.{rank}", {"rank": rank, **note})

    thread = threading.Thread(target=answer)
    if done:
        thread.start()
    yield
    if done:
        thread.join()


DIED = "the job has ended"
SILENT = f"no answer from rank 0 (process {os.getpid()}) within 1 s; is it taking steps?"
WHERE = "`kinetoscope summary DIR` says where the time goes"


@pytest.mark.parametrize(
    ("done", "alive", "code", "said"),
    [
        ([{"path": "DIR/a"}], True, 0, ["1 rank records from step 8 on", WHERE]),
        (
            [{"path": "DIR/a"}, {"problem": "it was recording already"}],
            True,
            1,
            ["2 ranks record from step 8 on", "rank 1: it was recording already", WHERE],
        ),
        ([], False, 1, [DIED]),
        ([], True, 1, [SILENT]),
    ],
)
def test_trigger_says_what_came_of_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    done: list[dict[str, object]],
    alive: bool,
    code: int,
    said: list[str],
) -> None:
    there = [{key: str(value).replace("DIR", str(tmp_path)) for key, value in note.items()} for note in done]
    with answering(tmp_path, there, alive):
        assert main(["trigger", str(tmp_path), "--timeout", "1" if said == [SILENT] else "60"]) == code
    out, errors = capsys.readouterr()
    assert out.split() == [note["path"] for note in there if "path" in note]
    assert errors.splitlines() == [f"kinetoscope: {line.replace('DIR', str(tmp_path))}" for line in said]


def test_trigger_names_what_it_cannot_look_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kinetoscope" / "request").mkdir(parents=True)
    assert main(["trigger", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("; the job's user has to ask\n")
    assert main(["trigger", str(GONE)]) == 1
    assert capsys.readouterr().err == f"kinetoscope: there is no process {GONE}\n"
    assert main(["trigger", str(os.getpid())]) == 1
    assert f"process {os.getpid()} was not started by `kinetoscope record`" in capsys.readouterr().err
    assert main(["trigger", str(tmp_path / "none")]) == 1
    assert "no job that `kinetoscope record` runs puts its traces there" in capsys.readouterr().err
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    assert main(["trigger", "1"]) == 1
    assert "processes can be looked into on Linux only; name the folder of the run instead" in capsys.readouterr().err


@contextlib.contextmanager
def job(folder: Path, command: list[str], *options: str) -> Iterator[subprocess.Popen[str]]:
    """A job under `kinetoscope record`; it is ended with all that it started."""
    full = kinetoscope("record", "-o", folder, *options, "--", *command)
    nowhere = subprocess.DEVNULL
    with contextlib.ExitStack() as stack:
        given = {**environment(), **stack.enter_context(ended_here())}
        process = subprocess.Popen(full, env=given, text=True, start_new_session=True, stdout=nowhere, stderr=nowhere)
        stack.callback(process.wait)
        stack.callback(process.kill)
        until(lambda: mailbox.read_all(folder / ".kinetoscope" / "ranks"))
        yield process


@pytest.mark.torch
def test_a_job_is_asked_by_command_file_and_signal(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with job(folder, python(TRAIN, "100000", "0.01"), "--idle") as process:
        assert traces(folder) == []
        asked = run(kinetoscope("trigger", folder, "--steps", "2", "--with-stack"))
        assert asked.returncode == 0, asked.stderr
        (path,) = asked.stdout.split()
        assert Path(path).parent == folder
        assert any("<string>" in name for name in names(traces(folder)[0]))
        by_process = run(kinetoscope("trigger", str(process.pid), "--steps", "1"))
        assert by_process.returncode == 0, by_process.stderr
        (folder / "trigger").touch()
        until(lambda: len(traces(folder)) == 3)
        (about,) = mailbox.read_all(folder / ".kinetoscope" / "ranks").values()
        os.kill(about["pid"], signal.SIGUSR2)
        until(lambda: len(traces(folder)) == 4)
        assert process.poll() is None
    assert [each["last_step"] - each["first_step"] + 1 for each in sidecars(folder)] == [2, 1, 3, 3]
    assert {each["reason"] for each in sidecars(folder)} == {"trigger"}


DISTRIBUTED = """
import sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank, slow = dist.get_rank(), int(sys.argv[1])
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
while True:
    if rank == slow:
        time.sleep(0.25)
    optimizer.zero_grad()
    net(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.torch
def test_four_ranks_record_the_same_steps_and_the_slow_one_is_named(tmp_path: Path) -> None:
    from kinetoscope import read, stragglers

    script, folder = tmp_path / "train.py", tmp_path / "a"
    script.write_text(DISTRIBUTED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    with job(folder, [*torchrun, "--master-port", str(port), str(script), "2"], "--idle") as process:
        asked = run(kinetoscope("trigger", str(process.pid), "--steps", "6"))
        assert asked.returncode == 0, asked.stderr
        assert len(asked.stdout.split()) == 4
    found = traces(folder)
    assert len(found) == 4
    assert all(steps(trace) == steps(found[0]) for trace in found)
    assert len(steps(found[0])) == 6
    assert [each["rank"] for each in sidecars(folder)] == [0, 1, 2, 3]
    assert f"4 ranks record from step {sidecars(folder)[0]['first_step']} on" in asked.stderr
    table = stragglers(read(str(folder))).frame
    assert table.filter(table["straggler"])["rank"].to_list() == [2]
