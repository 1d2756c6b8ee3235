"""The sentences of the summary."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import read, serving_summary, summary
from kinetoscope.pages.digest import LABELS
from kinetoscope.pages.grid import GridBlock
from kinetoscope.pages.sentences.steps import TimePart, headline, largest_loss, what_serves
from tests import drawn

MS = 1_000_000


def parts(**times: float) -> list[TimePart]:
    return [TimePart(kind, LABELS[kind], time * MS) for kind, time in times.items()]


def test_the_headline_says_what_a_step_takes_and_what_the_device_does() -> None:
    step = parts(computation=60, host=40)
    assert headline(step, ranks=1, device=True, marked=True) == (
        "A step takes 100\u00a0ms, and the device computes for 60.0% of it."
    )
    assert headline(step, ranks=8, device=True, marked=True).startswith(
        "A step takes 100\u00a0ms on average over 8 ranks,"
    )
    assert headline(step, ranks=1, device=True, marked=False).startswith(
        "The window is 100\u00a0ms long, and the device computes"
    )
    assert headline(step, ranks=1, device=True, marked=False, before=True).startswith(
        "After work from before the recording, the window is 100\u00a0ms long, and"
    )
    assert "so this is the host's time" in headline(parts(host=40), ranks=1, device=False, marked=True)
    assert headline(step, ranks=1, device=True, marked=True, before=True).startswith(
        "After work from before the recording, the step takes 100\u00a0ms, and"
    )
    unseen = headline(parts(host=40), ranks=1, device=False, marked=True, unseen=True)
    assert unseen == "A step takes 40.0\u00a0ms; what devices did is not known."
    assert headline([], ranks=0, device=False, marked=True).startswith("There is no time to account for")


@pytest.mark.parametrize("kind", sorted(set(LABELS) - {"computation"}))
@pytest.mark.parametrize("device", [True, False])
def test_the_largest_loss_is_named_with_what_it_means(kind: str, device: bool) -> None:
    work = "computation" if device else "host"
    if kind == work:
        return
    step = parts(**({work: 50.0, "idle": 6.0} | {kind: 30.0}))
    text = largest_loss(step, device=device)
    assert text.startswith(f"The largest loss is {LABELS[kind]}, 30.0\u00a0ms (")
    assert text.endswith(".")


def test_what_is_small_is_no_loss() -> None:
    text = largest_loss(parts(computation=97, host=2, memory=1), device=True)
    assert text == "No loss is larger than 5.00%: only faster kernels, or less work, shorten it now."
    assert "operators" in largest_loss(parts(host=99, idle=1), device=False)
    assert largest_loss([], device=True) == ""


def test_it_does_not_ask_for_what_was_recorded() -> None:
    step = parts(computation=50, idle=50)
    assert "with_stack=True" in largest_loss(step, device=True)
    assert "with_stack" not in largest_loss(step, device=True, stacks=True)


def test_what_a_server_does(tmp_path: Path) -> None:
    names = ["execute_context_0(0)_generation_8(8)"] * 3 + ["execute_context_1(90)_generation_8(8)"]
    events = []
    for k, (name, duration) in enumerate(zip(names, (800, 800, 800, 1500), strict=True)):
        at = 1000 * k
        events += [drawn.annotation(name, at, 20), drawn.launch(at, 10, k + 1, name="cudaGraphLaunch")]
        events.append(drawn.kernel("gemm", at + 10, duration, k + 1))
    said = what_serves(serving_summary(drawn.job(tmp_path, *events)))
    assert said.replace("\u00a0", " ") == (
        "vLLM ran 3 decode and 1 mixed steps. A decode step of 8 requests takes 1.00 µs, at worst 1.00 µs (99th"
        " percentile), replayed as graphs. Prefill holds up decode for 700 ns, 15.5% of the time. Before steps the"
        " device waits 13.5% of the time, and nothing recorded says why."
    )
    assert what_serves(serving_summary(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))) == ""


@pytest.mark.parametrize(("mark", "expected"), [("ProfilerStep#1", "a step takes"), ("request", "the window takes")])
def test_of_alike_ranks_the_step_or_the_window_is_named(tmp_path: Path, mark: str, expected: str) -> None:
    for rank in range(2):
        events = [drawn.annotation(mark, 0, MS), drawn.op("aten::mm", 100, 500_000)]
        facts = {"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}}
        drawn.written(tmp_path / f"rank{rank}.pt.trace.json", *events, **facts)
    [row] = [block for block in summary(read(tmp_path, jobs=1)).blocks if isinstance(block, GridBlock)]
    assert any(cell.startswith(expected) for cell in row.rows[0].cells)
