"""`kinetoscope try`: its command line, and one program from the list of trials to the files of its result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kinetoscope.cli import main, trying
from kinetoscope.cli.shared.options import parted
from kinetoscope.errors import UsageError
from kinetoscope.trying.options import UserVariant

TRAIN = """
import os, time, torch
torch.manual_seed(0)
parameter = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([parameter], lr=0.01)
while True:
    time.sleep(float(os.environ.get("NAP", "0.01")))
    optimizer.zero_grad(set_to_none=False)
    parameter.square().sum().backward()
    optimizer.step()
"""


def scanned(*arguments: str) -> tuple[list[str], tuple[UserVariant, ...]]:
    own, command = parted(arguments)
    return trying._scanned(command, trying._parser().parse_args(own))


def test_a_scan_takes_the_first_value_as_the_program_as_it_is() -> None:
    command, variants = scanned("-P", "n", "0", "8", "-D", "4", "--", "python", "train.py", "--workers={n}")
    assert command == ["python", "train.py", "--workers=0"]
    assert [(each.name, each.command[-1], each.group) for each in variants] == [
        ("n=4", "--workers=4", "-P n"),
        ("n=8", "--workers=8", "-P n"),
    ]


def test_variants_and_variables() -> None:
    _, variants = scanned("--variant", "big: python train.py -b 64", "--set", "OMP_NUM_THREADS=1,2", "--", "python")
    assert [(each.name, each.command, dict(each.environment)) for each in variants] == [
        ("big", ("python", "train.py", "-b", "64"), {}),
        ("OMP_NUM_THREADS=1", (), {"OMP_NUM_THREADS": "1"}),
        ("OMP_NUM_THREADS=2", (), {"OMP_NUM_THREADS": "2"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--variant", "python train.py"), "is no variant"),
        (("--set", "THREADS"), "sets no variable"),
        (("-P", "n", "0", "8"), "has no {n}"),
        (("-P", "n", "8", "0"), "there are no"),
        (("-P", "n", "0", "1000"), "there are no"),
        (("-P", "n", "a", "b"), "two numbers"),
        (("--set", "A=1,1"), "have one name"),
    ],
)
def test_what_cannot_be_understood_is_said(arguments: tuple[str, ...], said: str) -> None:
    words = ("python", "{n}") if "{n}" not in said else ("python",)
    with pytest.raises(UsageError, match=said.replace("{", r"\{")):
        scanned(*arguments, "--", *words)


def test_times_have_minutes() -> None:
    assert [trying._seconds(text) for text in ("90", "90s", "1.5m", "2min", "1h")] == [90, 90, 90, 120, 3600]
    with pytest.raises(ValueError, match="no time"):
        trying._seconds("soon")


def test_nothing_to_try_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try"]) == 2
    assert "kinetoscope try -- python train.py" in capsys.readouterr().err


@pytest.mark.torch
def test_from_the_list_to_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    command = ["--", sys.executable, "train.py"]
    assert main(["try", "--list", "--steps", "18", "-o", "listed", *command]) == 0
    listed = capsys.readouterr().out
    assert "set-to-none" in listed
    assert "no device" in listed or "device" in listed
    own = ["--set", "NAP=0.001", "--allow", "noise", "--steps", "18", "--no-remember", "-o", "out"]
    assert main(["try", *own, "--export-json", "all.json", "--export-markdown", "all.md", *command]) == 0
    shown = capsys.readouterr().out
    assert "NAP=0.001" in shown
    result = json.loads(Path("all.json").read_text())
    (trial,) = result["trials"]
    assert (trial["trial"], trial["kept"]) == ("NAP=0.001", True)
    assert trial["why"]
    assert trial["change_low"] < trial["change"] < 0
    assert "NAP=0.001" in Path("all.md").read_text()
    assert main(["ledger", "out"]) == 0
    assert "NAP=0.001" in capsys.readouterr().out
    assert main(["try", "-o", "gone", "--", sys.executable, "no_such_file.py"]) == 1
    assert "nothing can be tried" in capsys.readouterr().err
