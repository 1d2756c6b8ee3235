"""Trials of a user, from an extension file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kinetoscope.errors import InputError
from kinetoscope.record.trials import NAMES, by_name, ours
from tests.conftest import ROOT
from tests.record.processes import SOURCE, environment, run

OWN = """
from kinetoscope.record.trials.trial import Change, Edit, Trial

def put_in(change):
    import torch
    original = torch.nn.ReLU.forward
    def forward(self, x):
        return x.clamp_(min=0) if change.applies() else original(self, x)
    torch.nn.ReLU.forward = forward

TRIAL = Trial(name="clamp", title="clamp in place", answers=(), put_in=put_in, effect="none", edit=Edit(text="do so"))
"""

_WITHOUT_OTHERS = """
import sys, types
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("polars", "numba", "numpy", "torch"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
sys.path.insert(0, sys.argv[1])
from kinetoscope.record.trials import by_name
trials = by_name([sys.argv[2]])
import kinetoscope.record.trials.trial as module
print(*trials)
"""


def test_list_and_folder_agree() -> None:
    folder = ROOT / "src" / "kinetoscope" / "record" / "trials"
    modules = {file.stem for file in folder.glob("*.py") if "\nTRIAL = Trial(\n" in file.read_text()}
    assert modules == set(NAMES)
    assert len({trial.name for trial in ours()}) == len(NAMES)


def test_rules_and_other_trials_that_are_named_exist() -> None:
    from kinetoscope.advisor.rules import rules

    codes, names = {rule.code for rule in rules()}, {trial.name for trial in ours()}
    for trial in ours():
        assert set(trial.answers) <= codes, trial.name
        assert set(trial.partners) <= names, trial.name
        assert trial.answers or trial.unasked or trial.allow, f"nothing ever asks for {trial.name}"


def test_a_file_is_loaded_with_the_standard_library_alone(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    command = [sys.executable, "-S", "-c", _WITHOUT_OTHERS, str(SOURCE), str(file)]
    done = run(command, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "clamp"
    assert len(done.stdout.split()) == len(NAMES) + 1


def test_a_name_that_is_taken_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "taken.py"
    file.write_text(OWN.replace('"clamp"', '"workers"'))
    command = [
        sys.executable,
        "-c",
        "import sys\nfrom kinetoscope.record.trials import by_name\nby_name([sys.argv[1]])",
    ]
    done = run([*command, str(file)])
    assert "two trials are called 'workers': give yours another name" in done.stderr
    none = str(tmp_path / "none.py")
    with pytest.raises(InputError, match="no such file"):
        by_name([none])
    with pytest.raises(InputError, match="no such file"):
        by_name([none], wanted=["workers", "clamp"])
    assert len(by_name([none], wanted=["workers"])) == len(NAMES)


@pytest.mark.torch
def test_it_acts_as_ours_do(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
    from tests.record.trials.attached import attached

    (tmp_path / "mine.py").write_text(OWN)
    program = "import torch\nx = torch.tensor([-1.0, 2.0])\ntorch.nn.ReLU()(x)\nprint(x.tolist())\n"
    done = attached(program, tmp_path, ["clamp"], extend=str(tmp_path / "mine.py"))
    assert done.out == "[0.0, 2.0]\n"
    assert done.notes["clamp"]["count"] == 1
