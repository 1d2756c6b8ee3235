"""Every optimizer of torch, by `every_optimizer.py`: what is proposed to it runs, and silences the proposal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kinetoscope.advisor.advice import advise
from kinetoscope.reading import read
from tests.record import processes
from tests.zoo.catalogue import FOLDER

RECORDER = """
import ast, json, sys, torch
sys.path.insert(0, sys.argv[1])
from every_optimizer import NAMES, train
from kinetoscope import profile

torch.set_num_threads(1)
for name, fixed in json.loads(sys.argv[3]) or [(name, "") for name in NAMES]:
    if fixed:  # as the proposal has it
        plain = getattr(torch.optim, name)
        given = {each.arg: ast.literal_eval(each.value) for each in ast.parse(f"f({fixed})").body[0].value.keywords}
        setattr(torch.optim, name, lambda params: plain(params, **given))
    with profile(f"{sys.argv[2]}/{name}", wait=2, warmup=1, active=5) as prof:
        train(name, False, 8, prof.step)
    if fixed:
        setattr(torch.optim, name, plain)
"""


def proposals(folder: Path, chosen: list[tuple[str, str]]) -> dict[str, str]:
    """What HOST004 proposes to each optimizer, by its name: the arguments of its constructor behind the parameters."""
    command = [sys.executable, "-W", "ignore", "-c", RECORDER, str(FOLDER), str(folder), json.dumps(chosen)]
    done = processes.run(command, env=processes.environment(OMP_NUM_THREADS="1"), cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {}
    for each in sorted(folder.iterdir()):
        changes = [one.change for one in advise(read(str(each), jobs=1)).findings if one.code == "HOST004"]
        found[each.name] = changes[0].rpartition("..., ")[2].rstrip(")") if changes else ""
    return found


@pytest.mark.torch
@pytest.mark.slow
def test_what_is_proposed_to_an_optimizer_runs(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    before = proposals(tmp_path / "before", [])
    assert {name for name, proposed in before.items() if not proposed} == {"LBFGS", "Muon", "SparseAdam"}
    assert {proposed for proposed in before.values() if proposed} == {"fused=True", "foreach=True"}
    after = proposals(tmp_path / "after", [(name, proposed) for name, proposed in before.items() if proposed])
    assert set(after.values()) == {""}
