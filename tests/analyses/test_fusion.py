from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, fusion
from kinetoscope.schema import Result
from tests import drawn

SIZE = 1 << 20


def gated(start: int, number: int, *, shape: list[int] | None = None) -> list[drawn.Event]:
    """x · sigmoid(a x) from line 12 of a module's forward: kernels of 2, 1 and 3 µs; before it another of 1 µs."""
    shape = shape or [SIZE]
    made = [
        drawn.python("nn.Module: Gate_0", start, 900),
        drawn.python("model.py(12): forward", start, 900),
        drawn.launch(start + 1, 2, 10 * number),
        drawn.kernel("other", 10_000 * number - 1000, 1000, 10 * number),
    ]
    for place, (name, dims, duration) in enumerate(
        (("aten::mul", [shape, []], 2000), ("aten::sigmoid", [shape], 1000), ("aten::mul", [shape, shape], 3000))
    ):
        at, correlation = start + 10 + 100 * place, 10 * number + place + 1
        types = ["c10::BFloat16", "double"] if len(dims) > 1 and not dims[1] else ["c10::BFloat16"] * len(dims)
        args: dict[str, Any] = {"Input Dims": dims, "Input type": types}
        made.append(drawn.op(name, at, 50, **args))
        made.append(drawn.launch(at + 10, 10, correlation))
        made.append(drawn.kernel("k", 10_000 * number + 3000 * place, duration, correlation))
    return made


def answer(folder: Path, *events: drawn.Event, **asked: Any) -> Result:
    return fusion(drawn.job(folder, *events), **asked)


def test_a_row_is_a_chain_of_a_line_and_module(tmp_path: Path) -> None:
    result = answer(tmp_path, *gated(0, 1), *gated(1000, 2), *gated(2000, 3, shape=[2, 2]))
    first, second = result.frame.to_dicts()
    assert first == {
        "rank": 0,
        "chain": "mul → sigmoid → mul",
        "calls": 2,
        "device_time": 12_000,
        "saved_time_least": 3_000,  # two reads and a write of each, at the rate of the sigmoid
        "saved_time": 6_000,  # half, all and a third
        "bytes": 2 * (7 * 2 * SIZE + 8),  # the number is one of eight bytes
        "saved_bytes_least": 2 * 3 * 2 * SIZE,
        "saved_bytes": 2 * 4 * 2 * SIZE,
        "operators": 3,
        "input_shapes": f"[[{SIZE}], []]",
        "module": "Gate",
        "file": "model.py",
        "line": 12,
        "by": "eager",
    }
    assert (second["input_shapes"], second["calls"]) == ("[[2, 2], []]", 1)
    assert result.notes[0] == ("Chains take 85.7% of device time; fused kernels would save 21.4% to 41.3% of it.")


def test_calls_of_the_selection_count(tmp_path: Path) -> None:
    events = [*gated(0, 1), *gated(1000, 2)]
    steps = [drawn.annotation(f"ProfilerStep#{number}", 1000 * number, 990) for number in range(2)]
    result = answer(tmp_path, *steps, *events, select=Selection(steps=(1,)))
    assert result.frame["calls"].to_list() == [1]
    assert answer(tmp_path, *events, select=Selection(streams=(7,))).frame["calls"].to_list() == [2]


def test_kernels_of_inductor_name_what_they_fused(tmp_path: Path) -> None:
    name = "triton_red_fused__to_copy_add_native_layer_norm_3"
    args: dict[str, Any] = {"Input Dims": [[2, 2], [2, 2]], "Input type": ["float", "float"]}
    result = answer(
        tmp_path,
        drawn.op(name, 0, 50),
        drawn.launch(10, 10, 1, name="cuLaunchKernel"),
        drawn.kernel(name, 100, 500, 1),
        drawn.op("aten::mm", 60, 20, **args),
        drawn.launch(65, 5, 2),
        drawn.kernel("gemm", 700, 100, 2),
    )
    [row] = result.frame.to_dicts()
    assert (row["chain"], row["operators"]) == ("_to_copy_add_native_layer_norm", None)
    assert (row["by"], row["calls"], row["device_time"], row["saved_time"]) == ("Inductor", 1, 500, None)


def test_without_shapes_a_note_says_so(tmp_path: Path) -> None:
    result = answer(tmp_path, drawn.op("aten::mul", 0, 50), drawn.launch(10, 10, 1), drawn.kernel("k", 100, 500, 1))
    assert not len(result.frame)
    assert result.notes[0].code == "NOT_RECORDED"
