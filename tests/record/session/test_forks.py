"""A child of fork is as without us: its result, its exit code, its memory, and a profiler of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.jobs import recorded, traces
from tests.record.programs import TRAIN

pytestmark = pytest.mark.torch

_FORK = """    if step == WHEN:
        import ctypes, os
        ends = ctypes.CDLL(None).exit  # as the interpreter ends, with what C does then
        child = os.fork()
        if not child:
            CHILD
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

_CHILDREN = {
    "a module and the end": "net(torch.ones(4, 8)); ends(0)",
    "an exit code": "ends(3)",
    "by an exception": "raise KeyError(1)",
    "at once": "os._exit(5)",
    "another program": "os.execv(sys.executable, [sys.executable, '-S', '-c', 'print(1)'])",
    "its own profiler": """
            with torch.profiler.profile(record_shapes=True) as own: net(torch.ones(4, 8))
            print(sorted(each.key for each in own.key_averages()), flush=True); ends(0)""",
    "training": """
            for _ in range(9): net(torch.ones(4, 8)).sum().backward(); optimizer.step()
            print(net(torch.ones(4, 8)).sum().item(), flush=True); ends(0)""",
    "memory": """
            def resident(): return int(open("/proc/self/statm").read().split()[1])
            before = resident()
            for _ in range(200_000): torch.ones(3)
            print(resident() - before < 5_000, flush=True); ends(0)""",
}


def _forking(when: int, child: str) -> str:
    text = TRAIN.replace("    time.sleep(pause)\n", _FORK.replace("WHEN", str(when)).replace("CHILD", child))
    return text.replace("else 8", "else 9")


@pytest.mark.parametrize("when", [4, 7], ids=["inside a window", "after it"])
@pytest.mark.parametrize("name", _CHILDREN)
def test_a_child_is_as_without_us(tmp_path: Path, name: str, when: int) -> None:
    program = _forking(when, _CHILDREN[name])
    plain, ours = recorded(program, None), recorded(program, tmp_path, active=2, seconds=120)
    assert (ours.code, ours.out) == (plain.code, plain.out), ours.err
    assert len(traces(tmp_path)) == 1, ours.err
    assert ours.err.count("Traceback") == plain.err.count("Traceback"), ours.err


def test_the_interpreter_of_a_child_ends(tmp_path: Path) -> None:
    program = _forking(4, "sys.stdout.write('a line'); net(torch.ones(4, 8)); sys.exit(3)")
    done = recorded(program, tmp_path, seconds=120, fresh=True)
    assert done.out.startswith("a linechild 3\n"), done.err
    assert done.code == 0


@pytest.mark.parametrize("option", ["with_stack", "all_threads"])
def test_a_child_records_nothing_for_ever(tmp_path: Path, option: str) -> None:
    done = recorded(_forking(4, _CHILDREN["memory"]), tmp_path, options={option: True}, seconds=120)
    assert done.out.startswith("True\nchild 0\n"), done.err
