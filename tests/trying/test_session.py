"""Programs of torch, tried in processes of their own: what is kept, what is said of those that cannot be, what stays."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kinetoscope.compare.trials.tried import Tried, TrialRow, from_json, load
from kinetoscope.errors import InputError, UsageError
from kinetoscope.trying import session as driver
from kinetoscope.trying.options import TryOptions, Variant
from kinetoscope.trying.progress import Progress
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
    if os.environ.get("NAN_FROM", "999999") <= str(number):
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
"""
TRAIN = LOOP + "for number in range(10 ** 9): step(number)\n"


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "train.py"
    path.write_text(text)
    return sys.executable, str(path)


def options(tmp_path: Path, text: str = TRAIN, **more: object) -> TryOptions:
    given: dict[str, object] = {"steps": 18, "remember": False, "allow": ("noise",), "timeout": 120.0}
    return TryOptions(command=program(tmp_path, text), folder=str(tmp_path / "try"), **{**given, **more})  # type: ignore[arg-type]


def tried(tmp_path: Path, text: str = TRAIN, watch: object = None, **more: object) -> Tried:
    session = TrySession(options(tmp_path, text, **more), *([watch] if watch else []))  # type: ignore[list-item]
    session.survey()
    session.measure_noise()
    return session.run()


def setting(text: str) -> Variant:
    name, value = text.split("=")
    return Variant(name=text, environment={name: value}, group=name)


def rows(result: Tried) -> dict[str, TrialRow]:
    return {row.trial: row for row in result.trials}


def refused(tmp_path: Path, text: str, **more: object) -> str:
    with pytest.raises(InputError) as error:
        tried(tmp_path, text, **more)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_what_makes_steps_shorter_is_kept_and_the_rest_has_its_reason(tmp_path: Path) -> None:
    heard: list[Progress] = []
    variants = [setting(each) for each in ("NAP=0.008", "SEED=1", "FAIL_AT=12", "NAP=0.04")]
    result = tried(tmp_path, watch=heard.append, variants=variants)
    of = rows(result)
    assert {name: row.outcome for name, row in of.items()} == {
        "NAP=0.008": "kept",
        "SEED=1": "no gain",
        "FAIL_AT=12": "failed",
        "NAP=0.04": "slower",
    }
    assert result.kept == ("NAP=0.008",)
    kept = of["NAP=0.008"]
    assert kept.rounds == 5
    assert kept.loss == "equal"
    assert kept.change is not None
    assert kept.change < -0.3
    assert of["FAIL_AT=12"].why == "it ended with exit code 1: RuntimeError: the disk caught fire"
    assert result.change_low is not None
    assert result.change_low < kept.change + 0.2
    assert load(tmp_path / "try") == result
    assert (tmp_path / "try" / "traces" / "baseline").is_dir()
    assert [*(tmp_path / "try" / kept.trace).glob("*.pt.trace.json.gz")]
    assert not (tmp_path / "try" / ".kinetoscope").exists() or not [*(tmp_path / "try" / ".kinetoscope").glob("*/*")]
    assert [each.runs for each in heard] == sorted(each.runs for each in heard)
    # What is there already is not run again.
    again = TrySession(options(tmp_path, variants=variants, resume=True))
    again.survey()
    again.measure_noise()
    assert dataclasses.replace(again.run(), seconds=result.seconds) == result
    with pytest.raises(InputError, match="--resume"):
        TrySession(options(tmp_path))
    with pytest.raises(InputError, match="another program"):
        TrySession(options(tmp_path, steps=19, resume=True))


def test_another_loss_is_not_kept(tmp_path: Path) -> None:
    both = Variant(name="fast", environment={"NAP": "0.004", "SEED": "2"})
    nan = Variant(name="nan", environment={"NAP": "0.004", "NAN_FROM": "0"})
    result = tried(tmp_path, variants=[both, nan])
    of = rows(result)
    assert result.kept == ()
    assert of["fast"].outcome == "loss differs"
    assert "in step 1" in of["fast"].why
    assert of["nan"].why == "its loss is not a number any more"
    assert result.step_kept is None


def test_without_a_seed_losses_say_nothing(tmp_path: Path) -> None:
    text = TRAIN.replace('int(os.environ.get("SEED", "1"))', "os.getpid()")
    result = tried(tmp_path, text, variants=[setting("NAP=0.005")])
    assert result.loss == "different"
    assert rows(result)["NAP=0.005"].loss == "unknown"
    assert result.kept == ("NAP=0.005",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOOP + "for number in range(5): step(number)", "it took 5 steps, and 11 are needed"),
        ("import torch\nprint(torch.ones(1))", "no process took a step"),
        (LOOP + "step(0)\nraise SystemExit('no data')", "it ended with exit code 1: no data"),
        (LOOP + "name = input()", "it ended with exit code 1: EOFError: EOF when reading a line"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
    ],
)
def test_a_program_that_cannot_be_tried_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-command: No such file"):
        TrySession(TryOptions(command=("no-such-command",), folder=str(tmp_path / "try"))).survey()
    with pytest.raises(UsageError, match="there is no trial 'workerz'; did you mean 'workers'"):
        TrySession(TryOptions(command=("true",), folder=str(tmp_path / "other"), only=("workerz",)))


def test_a_program_that_hangs_when_changed_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_LIMIT_SECONDS", 12.0)
    monkeypatch.setattr(driver, "_LIMIT_TIMES", 0.0)
    hang = "if number == 5 and os.environ.get('HANG'):\n        time.sleep(600)\n    loss.backward()"
    text = TRAIN.replace("loss.backward()", hang)
    result = tried(tmp_path, text, variants=[setting("HANG=1"), setting("NAP=0.005")])
    assert rows(result)["HANG=1"].why == "it was not done after 12 s"
    assert result.kept == ("NAP=0.005",)


def test_a_loop_that_catches_all_ends_and_what_it_started_ends_too(tmp_path: Path) -> None:
    text = (
        LOOP
        + "import atexit, subprocess\n"
        + f"atexit.register(lambda: open({str(tmp_path / 'exit')!r}, 'w'))\n"
        + f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {str(tmp_path)!r}])\n"
        + "number = 0\nwhile True:\n    try:\n        step(number)\n    except:\n        pass\n    number += 1\n"
    )
    result = tried(tmp_path, text, variants=[setting("NAP=0.005")])
    assert result.kept == ("NAP=0.005",)
    assert not (tmp_path / "exit").exists()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        assert not (b"time.sleep(600)" in words and str(tmp_path).encode() in words)


def test_ranks_end_at_the_same_step_and_the_slowest_counts(tmp_path: Path) -> None:
    text = (
        LOOP.replace("model = torch.nn.Linear(8, 8)", "")
        .replace(
            "torch.manual_seed",
            "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
            "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\ntorch.manual_seed",
            1,
        )
        .replace('"NAP", "0.02"', '"NAP", "0.02") if dist.get_rank() else os.environ.get("FIRST", "0.001"')
    )
    path = tmp_path / "train.py"
    path.write_text(text + "for number in range(10 ** 9): step(number)\n")
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(path))
    made = dataclasses.replace(options(tmp_path, variants=[setting("NAP=0.004")]), command=command)
    session = TrySession(made)
    session.survey()
    session.measure_noise()
    result = session.run()
    assert result.ranks == 2
    assert result.kept == ("NAP=0.004",)
    assert result.step > 0.02e9
    assert len([*(tmp_path / "try" / "traces" / "baseline").glob("*.pt.trace.json.gz")]) == 2


def test_calls_of_a_model_are_steps_where_no_optimizer_steps(tmp_path: Path) -> None:
    text = LOOP.split("optimizer =")[0] + (
        "with torch.no_grad():\n    while True:\n"
        "        time.sleep(float(os.environ.get('NAP', '0.02')))\n        model(torch.ones(1, 8))\n"
    )
    result = tried(tmp_path, text, variants=[setting("NAP=0.005")])
    assert (result.by_calls, result.kept, result.loss) == (True, ("NAP=0.005",), "unknown")


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.doing.startswith("SEED"):
            raise KeyboardInterrupt

    result = tried(tmp_path, watch=interrupt, variants=[setting("NAP=0.005"), setting("SEED=1")])
    assert (result.stopped, result.kept) == ("it was interrupted", ("NAP=0.005",))
    assert from_json((tmp_path / "try" / "try.json").read_text()) == result


def test_a_noisy_machine_is_said_before_a_table_of_chance(tmp_path: Path) -> None:
    text = TRAIN.replace("float(os.environ.get", "(1 + os.getpid() % 97) / 10 * float(os.environ.get", 1)
    said = refused(tmp_path, text, variants=[setting("NAP=0.005")], allow=())
    assert "nothing can be told on this machine now" in said


def test_the_budget_ends_it(tmp_path: Path) -> None:
    result = tried(tmp_path, variants=[setting("NAP=0.005")], budget=0.1)
    assert rows(result)["NAP=0.005"].outcome == "no time"


def names(values: Sequence[TrialRow]) -> list[str]:
    return [each.trial for each in values]


def test_the_table_and_json_hold_every_number(tmp_path: Path) -> None:
    result = tried(tmp_path, variants=[setting("NAP=0.005")], seed=None)
    table = result.result
    assert table.frame.get_column("trial").to_list() == names(result.trials)
    assert table.frame.get_column("brought").to_list()[0] == result.trials[0].brought
    assert math.isclose(result.trials[0].change or 0, -0.7, abs_tol=0.2)
    assert os.environ.get("KINETOSCOPE_TRIAL") is None
