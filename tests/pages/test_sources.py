"""Which functions of the program take the time, in the words of *Sources*."""

from __future__ import annotations

from pathlib import Path

from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import sources
from kinetoscope.pages.blocks import BarsBlock, Page, TableBlock
from tests import drawn

MODULE = [
    drawn.python("nn.Module: Qwen2MLP_3", 0, 900),
    drawn.python("torch/nn/modules/module.py(1779): _call_impl", 1, 898),
    drawn.python("models/qwen2.py(56): forward", 2, 896),
]


def plain(text: str) -> str:
    """With plain spaces."""
    return " ".join(text.split())


def page(folder: Path, *events: drawn.Event) -> Page:
    return sources.page(drawn.job(folder, *events), ALL, {})


def test_a_function_is_named_with_its_module_and_what_has_no_place_is_in_the_headline(tmp_path: Path) -> None:
    work = [drawn.launch(20, 5, 1), drawn.kernel("gemm", 100, 60, 1), drawn.kernel("from before", 10, 40, 9)]
    told = page(tmp_path, *MODULE, drawn.op("aten::mm", 10, 50), *work)
    assert plain(told.sentence) == (
        "`forward (Qwen2MLP) · qwen2.py:56` costs most: 60 ns of device time, 60.0% of all."
        " 40.0% could not be placed in the program."
    )
    [bars] = [block for block in told.blocks if isinstance(block, BarsBlock)]
    [bar] = bars.bars
    assert (bars.title, bar.detail) == ("Functions that cost most", "1 call: aten::mm")
    assert bar.name == "forward (Qwen2MLP) · models/qwen2.py:56"
    [table] = [block for block in told.blocks if isinstance(block, TableBlock)]
    assert table.params["group_by"] == "line"


def test_a_graph_counts_where_python_replays_it(tmp_path: Path) -> None:
    run = drawn.python("runner/graphs.py(8): run", 10, 200)
    replay = drawn.python("torch/cuda/graphs.py(139): replay", 15, 190)
    graph = drawn.launch(20, 150, 1, name="cudaGraphLaunch"), *(drawn.kernel("k", 300 + 50 * n, 40, 1) for n in (0, 1))
    told = page(tmp_path, drawn.annotation("execute", 0, 300), run, replay, *graph)
    assert plain(told.sentence) == "`run · graphs.py:8` costs most: 80 ns of device time, 100% of all."


def test_stacks_without_a_line_of_the_program_are_not_asked_for_again(tmp_path: Path) -> None:
    inside = drawn.python("torch/utils/data.py(3): next", 0, 50), drawn.op("aten::stack", 5, 10)
    assert page(tmp_path, *inside).sentence.endswith(": all stacks are of libraries.")
    assert page(tmp_path, inside[1]).sentence.endswith(": record with_stack=True.")
