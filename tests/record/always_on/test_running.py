"""`kinetoscope record -- COMMAND`, run for real."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.record.processes import SOURCE, environment, run
from tests.record.programs import TRAIN, kinetoscope, names, python, sidecars, steps, traces, until

pytestmark = pytest.mark.torch


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def test_a_script_is_recorded_and_computes_what_it_computes_alone(script: Path, tmp_path: Path) -> None:
    alone = run([sys.executable, str(script)])
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--", sys.executable, script))
    assert (done.returncode, done.stdout) == (0, alone.stdout)
    assert "1 trace in" in done.stderr
    assert f"kinetoscope summary {tmp_path / 'a'}" in done.stderr
    (trace,) = traces(tmp_path / "a")
    assert steps(trace) == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]
    said = names(trace)
    assert said.count("forward") == said.count("backward") == said.count("Optimizer.step#Adam.step") == 3
    assert said.count("[pl][module]torch.nn.modules.linear.Linear: Sequential.0") == 3
    assert not any(
        event.get("args", {}).get("finished") is False for event in trace["traceEvents"] if event["ph"] == "X"
    )
    (about,) = sidecars(tmp_path / "a")
    assert (about["first_step"], about["last_step"]) == (2, 4)


def test_modules_and_texts_and_children_are_recorded_too(script: Path, tmp_path: Path) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}], check=True)"
    commands = {
        "module": ["-m", "train", "8"],
        "text": ["--", *python(TRAIN)],
        "child": ["--", *python(child)],
    }
    for name, command in commands.items():
        done = run(kinetoscope("record", "-o", tmp_path / name, *command), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(traces(tmp_path / name)) == 1, (name, done.stderr)


def test_the_schedule_is_kept(script: Path, tmp_path: Path) -> None:
    options = ["--wait", "3", "--warmup", "0", "--active", "2", "--repeat", "2", "--no-spans"]
    run(kinetoscope("record", "-o", tmp_path / "a", *options, "--", sys.executable, script, "20"))
    assert [(each["first_step"], each["last_step"]) for each in sidecars(tmp_path / "a")] == [(3, 4), (8, 9)]
    assert "forward" not in names(traces(tmp_path / "a")[0])


def test_an_interpreter_without_the_package_records(script: Path, tmp_path: Path) -> None:
    """It has torch, and nothing of ours: not the package, not what that depends on."""
    import torch

    other = tmp_path / "other"
    venv.create(other, symlinks=True)
    (site,) = other.glob("lib/python*/site-packages")
    for package in Path(torch.__file__).parents[1].iterdir():
        if not package.name.startswith(("kinetoscope", "_kinetoscope", "__editable__", "_editable", "polars", "numba")):
            (site / package.name).symlink_to(package)
    for path in site.glob("*.pth"):
        path.unlink()
    recorder = kinetoscope(
        "record", "-o", tmp_path / "a", "--", str(other / "bin" / "python"), "-W", "ignore", str(script)
    )
    # The command itself finds the package where it stands; the program must not.
    program = "import os, sys; del os.environ['PYTHONPATH']; from kinetoscope.cli import main; sys.exit(main())"
    done = run([sys.executable, "-c", program, *recorder[3:]])
    assert done.returncode == 0, done.stderr
    assert len(traces(tmp_path / "a")) == 1, done.stderr


def test_a_hidden_sitecustomize_runs_and_who_looks_for_torch_finds_it(script: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins; builtins.HIDDEN = 1\n")
    script.write_text("print(HIDDEN)\nimport importlib.util\nassert importlib.util.find_spec('torch')\n" + TRAIN)
    given = environment(PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), str(SOURCE)]))
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--", sys.executable, script), env=given)
    assert done.stdout.startswith("1\n")
    assert len(traces(tmp_path / "a")) == 1


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_of_data_loaders_are_left_alone(script: Path, tmp_path: Path, how: str) -> None:
    script.write_text(f"""
import os, torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, index):
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        net(torch.ones(4)).backward()
        optimizer.step()  # a worker that steps is still no rank
        return torch.ones(4)
if __name__ == "__main__":
    torch.set_num_threads(1)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loader = torch.utils.data.DataLoader(Data(), 4, num_workers=1, multiprocessing_context={how!r},
                                         persistent_workers={how == "spawn"})
    for _ in range(2):
        for batch in loader:
            net(batch).sum().backward()
            optimizer.step()
    print(os.getpid())
""")
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--repeat", "2", "--", sys.executable, script))
    assert done.returncode == 0, done.stderr
    found = sidecars(tmp_path / "a")
    assert [each["pid"] for each in found] == [int(done.stdout)] * 2
    waits = [name for name in names(traces(tmp_path / "a")[0]) if name.startswith("enumerate(DataLoader)#")]
    assert waits


def test_ranks_that_are_forked_record(script: Path, tmp_path: Path) -> None:
    script.write_text(
        "import os, torch\n"
        "children = [os.fork() for _ in range(1)]\n"
        "os.environ['RANK'] = str(children.count(0))\n" + TRAIN + "\nif children[0]: os.waitpid(children[0], 0)\n"
    )
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--", sys.executable, script))
    assert [each["rank"] for each in sidecars(tmp_path / "a")] == [0, 1], done.stderr


def test_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    record = kinetoscope("record", "-o", tmp_path / "a", "--")
    assert run([*record, *python("raise SystemExit(7)")]).returncode == 7
    assert run([*record, *python("import os; os.kill(os.getpid(), 9)")]).returncode == 128 + signal.SIGKILL
    missing = run([*record, "no-such-command"])
    assert missing.returncode == 1
    assert "no-such-command" in missing.stderr


def test_signals_reach_the_program(tmp_path: Path) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('x', flush=True)\n"
        "signal.pause()"
    )
    command = kinetoscope("record", "-o", tmp_path / "a", "--", *python(program))
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5


def test_what_was_not_recorded_is_told_with_the_reason(script: Path, tmp_path: Path) -> None:
    record = kinetoscope("record", "-o", tmp_path / "a")
    assert "no process took a step" in run([*record, "--", *python("import torch")]).stderr
    assert "no process took a step" in run([*record, "--", sys.executable, "-I", str(script)]).stderr
    assert "fewer than the 5 steps" in run([*record, "--", sys.executable, str(script), "1"]).stderr
    assert run(record).returncode == 2
    assert run([*record, "--idle", "--every", "5", "--", "true"]).returncode == 2
    assert not (tmp_path / "a" / ".kinetoscope").exists()


def test_a_window_that_the_end_cuts_off_is_written_and_marked(script: Path, tmp_path: Path) -> None:
    run(kinetoscope("record", "-o", tmp_path / "a", "--active", "100", "--", sys.executable, script))
    (about,) = sidecars(tmp_path / "a")
    assert about["truncated"]
    assert len(traces(tmp_path / "a")) == 1


def test_a_folder_that_cannot_be_made_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(kinetoscope("record", "-o", tmp_path / "file" / "a", "--", *python("print('ran')")))
    assert done.returncode == 1
    assert done.stdout == ""


def test_a_compiled_step_of_the_optimizer_is_counted(script: Path, tmp_path: Path) -> None:
    script.write_text(
        TRAIN.replace("for step in", "step_of = torch.compile(optimizer.step, backend='eager')\nfor step in").replace(
            "    optimizer.step()\n", "    step_of()\n"
        )
    )
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--", sys.executable, "-W", "ignore", script))
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout


_COMPILED_WHOLE = """
import torch
torch.set_num_threads(1)
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
@torch.compile(backend="eager")
def train(x):
    optimizer.zero_grad(); net(x).sum().backward(); optimizer.step()
for _ in range(8): train(torch.ones(4, 8))
from torch._dynamo.utils import counters
print(dict(counters["stats"]))
"""


def test_an_optimizer_within_a_compiled_function_is_counted_and_nothing_is_compiled_for_it(tmp_path: Path) -> None:
    alone = run([sys.executable, "-c", _COMPILED_WHOLE])
    done = run(kinetoscope("record", "-o", tmp_path, "--", sys.executable, "-c", _COMPILED_WHOLE))
    assert (done.returncode, done.stdout) == (0, alone.stdout), done.stderr
    assert "UserWarning" not in done.stderr
    assert steps(traces(tmp_path)[0]) == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]


def test_several_optimizers_and_accumulation_make_one_step(script: Path, tmp_path: Path) -> None:
    script.write_text("""
import torch
torch.set_num_threads(1)
nets = [torch.nn.Linear(4, 1) for _ in range(2)]
optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in nets]
for step in range(8):
    for net, optimizer in zip(nets, optimizers):
        for _ in range(3):
            net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
""")
    run(kinetoscope("record", "-o", tmp_path / "a", "--", sys.executable, script))
    said = names(traces(tmp_path / "a")[0])
    assert said.count("forward") == said.count("backward") == 3 * 2 * 3
    assert said.count("Optimizer.step#SGD.step") == 3 * 2


def test_an_interrupt_while_a_window_ends_is_the_programs(script: Path, tmp_path: Path) -> None:
    script.write_text(
        "import os, signal\n"
        + TRAIN.replace("    time.sleep(pause)", "    if step == 3: os.kill(os.getpid(), signal.SIGINT)")
    )
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--active", "50", "--", sys.executable, script))
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode == 128 + signal.SIGINT
    assert [bool(each["truncated"]) for each in sidecars(tmp_path / "a")] == [True]
    assert until(lambda: not list((tmp_path / "a").glob("*.part")))


@pytest.mark.parametrize("how", ["os._exit(9)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()"])
def test_a_program_that_dies_later_has_its_trace(script: Path, tmp_path: Path, how: str) -> None:
    text = TRAIN.replace("    time.sleep(pause)", f"    if step == 5: {how}")
    script.write_text("import os, signal\n" + text)
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--active", "2", "--", sys.executable, script))
    assert done.returncode in {9, 128 + signal.SIGKILL, 128 + signal.SIGABRT}
    assert len(traces(tmp_path / "a")) == 1, done.stderr
    assert "1 trace in" in done.stderr
    assert not list((tmp_path / "a").glob("*.part"))


def test_a_program_that_dies_in_a_window_is_not_told_to_take_more_steps(script: Path, tmp_path: Path) -> None:
    script.write_text("import os\n" + TRAIN.replace("    time.sleep(pause)", "    if step == 3: os._exit(9)"))
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--active", "9", "--", sys.executable, script))
    assert done.returncode == 9
    assert "nothing was recorded: the program ended in the midst of a window" in done.stderr


def test_what_a_killed_program_left_is_finished_or_removed_and_said(tmp_path: Path) -> None:
    from kinetoscope.record.session.options import rank_identity

    name = f"{rank_identity().host}_4194303.rank0of1.step"
    (tmp_path / f"{name}3.17.part").write_text(
        '{"traceEvents": [{"ph": "i", "name": "x", "ts": 1, "pid": 1, "tid": 1}]}'
    )
    (tmp_path / f"{name}4.18.part").write_text('{"traceEvents": [')
    done = run(kinetoscope("record", "-o", tmp_path, "--", "true"))
    assert "of an earlier run, 1 trace whose process ended before it was written was finished" in done.stderr
    assert "1 file of a process that ended while it wrote was removed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}3.17.pt.trace.json.gz"]


def test_windows_wait_for_the_traces_that_are_being_written(script: Path, tmp_path: Path) -> None:
    command = ["--wait", "1", "--warmup", "0", "--active", "1", "--repeat", "0"]
    done = run(kinetoscope("record", "-o", tmp_path / "a", *command, "--", sys.executable, script, "60"))
    assert "could not" not in done.stderr
    count = len(traces(tmp_path / "a"))
    assert f"{count} traces in" in done.stderr
    missed = re.search(r"\((\d+) windows were skipped while 4 traces were still being written\)", done.stderr)
    assert missed
    assert int(missed[1]) + count <= 30


def test_a_window_in_which_the_program_was_killed_is_counted(script: Path, tmp_path: Path) -> None:
    end = "    if step == 8: os._exit(time.sleep(2) or 9)"
    script.write_text("import os\n" + TRAIN.replace("    time.sleep(pause)", end))
    done = run(kinetoscope("record", "-o", tmp_path / "a", "--repeat", "2", "--", sys.executable, script, "20"))
    assert len(traces(tmp_path / "a")) == 1
    assert "1 trace in" in done.stderr
    assert "1 window more was lost, as the program ended in the midst" in done.stderr


def test_a_window_of_which_there_is_a_trace_was_not_lost() -> None:
    from kinetoscope.cli.record import _lost

    traces = [f"/a/host_{pid}.rank{rank}of2.step12.17.pt.trace.json.gz" for rank, pid in enumerate((7, 8))]
    assert _lost(["0.7.12", "1.8.12"], traces) == 0
    assert _lost(["0.7.12", "0.7.20", "1.9.12"], traces) == 2
    assert _lost(["0.7.12"], []) == 1


@pytest.mark.parametrize("place", ["memory://a", "s3:/bucket/a"])
def test_places_where_nothing_would_remain_are_refused(tmp_path: Path, place: str) -> None:
    done = run(kinetoscope("record", "-o", place, "--", *python("print('ran')")), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert place in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    from kinetoscope.record.output.delivery import lacks_room

    assert not lacks_room(tmp_path, 0)
    assert "MB are free on its disk" in lacks_room(tmp_path, 1 << 60)


def test_a_store_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from kinetoscope.record.output import finishing_process

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setattr(finishing_process, "TRY_S", 0.5)
        assert finishing_process.refused(f"http://127.0.0.1:{deaf.getsockname()[1]}/a") == "no answer within 0 s"


def test_a_url_that_cannot_be_written_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    for url in ("nosuch://bucket/a", "file:///proc/nowhere/a"):
        done = run(kinetoscope("record", "-o", url, "--", *python("print('ran')")), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert url in done.stderr


def test_what_a_store_does_not_take_is_kept_here(tmp_path: Path) -> None:
    far = tmp_path / "far"
    program = f"import os, shutil; shutil.rmtree({str(far)!r}); open({str(far)!r}, 'w').close()\n" + TRAIN
    done = run(kinetoscope("record", "-o", f"file://{far}", "--", *python(program)), cwd=tmp_path)
    assert done.returncode == 0
    assert len(traces(tmp_path / "kinetoscope-unsent")) == 1, done.stderr
    assert f"so the trace is in {tmp_path / 'kinetoscope-unsent'}" in done.stderr
