"""Operators that torch really runs, as the profiler records them, against torch's own `FlopCounterMode`.

That counts all pairs of a causal attention, and of the gradient of a grouped convolution's weight every channel for
every group: of these the tests say what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.formulas.attention import Mask
from tests.model.roofline.formulas.costs import Dims, flop_of

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from torch.nn import functional  # noqa: E402
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, flop_registry  # noqa: E402

Run = Callable[[], object]


def counted(run: Run, folder: Path) -> tuple[int, int]:
    """Operations of a function by what the profiler records of it, and by torch's counter."""
    with FlopCounterMode(display=False) as counter:
        run()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        run()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    return int(costed_calls(kinetoscope.read(path).trace()).flop.sum()), counter.get_total_flops()


def tensor(*shape: int) -> Any:
    return torch.randn(shape, requires_grad=True)


def back(out: Any) -> None:
    out.sum().backward()


RUNS: dict[str, Run] = {
    "mm": lambda: back(tensor(3, 4) @ tensor(4, 5)),
    "vectors": lambda: tensor(4) @ tensor(4, 5),
    "broadcast matmul": lambda: back(tensor(2, 1, 3, 4) @ tensor(7, 4, 5)),
    "bmm": lambda: back(torch.bmm(tensor(7, 3, 4), tensor(7, 4, 5))),
    "addmm": lambda: back(torch.addmm(tensor(5), tensor(3, 4), tensor(4, 5), beta=0.5)),
    "baddbmm": lambda: torch.baddbmm(tensor(7, 3, 5), tensor(7, 3, 4), tensor(7, 4, 5)),
    "linear": lambda: back(functional.linear(tensor(2, 3, 4), tensor(5, 4), tensor(5))),
    "einsum": lambda: back(torch.einsum("bik,bkj->bij", tensor(7, 3, 4), tensor(7, 4, 5))),
    "conv1d": lambda: back(functional.conv1d(tensor(2, 6, 50), tensor(5, 6, 3), tensor(5), 2, 1)),
    "conv2d": lambda: back(functional.conv2d(tensor(2, 6, 20, 20), tensor(5, 6, 3, 3), tensor(5), 2, 1)),
    "dilated conv2d": lambda: back(functional.conv2d(tensor(2, 6, 20, 20), tensor(5, 6, 3, 3), dilation=2)),
    "conv2d, padding by name": lambda: back(functional.conv2d(tensor(2, 6, 9, 9), tensor(5, 6, 3, 3), padding="same")),
    "conv3d": lambda: back(functional.conv3d(tensor(1, 2, 6, 6, 6), tensor(3, 2, 2, 2, 2))),
    "conv_transpose2d": lambda: back(functional.conv_transpose2d(tensor(2, 6, 7, 7), tensor(6, 5, 3, 3), stride=2)),
    "grouped conv2d": lambda: functional.conv2d(tensor(2, 6, 9, 9), tensor(4, 3, 3, 3), groups=2),
    "unbatched conv2d": lambda: functional.conv2d(tensor(6, 9, 9), tensor(5, 6, 3, 3)),
    "only the weight's gradient": lambda: back(functional.conv2d(torch.randn(2, 6, 9, 9), tensor(5, 6, 3, 3))),
    "attention by single operators": lambda: back(
        torch.softmax(tensor(2, 8, 10, 16) @ tensor(2, 8, 16, 20), -1) @ tensor(2, 8, 20, 32)
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_operations_are_torchs(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    ours, theirs = counted(RUNS[name], tmp_path)
    assert ours == theirs > 0


def attention(*, causal: bool) -> Any:
    query, key, value = (tensor(2, 8, 10, 16) for _ in range(3))
    return functional.scaled_dot_product_attention(query, key, value, is_causal=causal)


def test_fused_attention_is_that_of_single_operators(tmp_path: Path) -> None:
    """Torch's counter knows no attention of CPUs; forward are two products, and five backward."""
    ours, _ = counted(lambda: back(attention(causal=False)), tmp_path)
    assert ours == 7 * 2 * 2 * 8 * 10 * 10 * 16


def test_causal_attention_leaves_out_the_pairs_that_the_mask_hides(tmp_path: Path) -> None:
    ours, _ = counted(lambda: back(attention(causal=True)), tmp_path)
    assert ours == 7 * 2 * 2 * 8 * (10 * 11 // 2) * 16


def test_the_gradient_of_a_grouped_convolutions_weight_is_overcounted_by_torch(tmp_path: Path) -> None:
    """Each of 2 groups sees 3 of the 6 channels: the pass takes as much as the forward pass, not twice that."""
    image, weight = torch.randn(2, 6, 9, 9), tensor(4, 3, 3, 3)
    ours, theirs = counted(lambda: back(functional.conv2d(image, weight, groups=2)), tmp_path)
    forward = 2 * 2 * 7 * 7 * 4 * 3 * 9
    assert (ours, theirs) == (2 * forward, 3 * forward)


def test_of_a_sparse_matrix_nothing_says_how_much_it_holds(tmp_path: Path) -> None:
    matrix = torch.eye(64).to_sparse()
    ours, _ = counted(lambda: torch.sparse.mm(matrix, torch.randn(64, 16)), tmp_path)
    assert ours == 0


sizes = st.integers(1, 7)


@given(sizes, sizes, st.integers(1, 3), sizes, sizes, sizes, sizes)
def test_fused_attention_of_devices_is_torchs(
    batch: int, groups: int, shared: int, queries: int, keys: int, size: int, out: int
) -> None:
    """Formulas of the counter for operators that only a GPU runs."""
    query, key, value = (batch, groups * shared, queries, size), (batch, groups, keys, size), (batch, groups, keys, out)
    for name in ("flash", "efficient", "cudnn"):
        operator = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")
        theirs = flop_registry[operator](query, key, value, out_val=None)
        assert (
            flop_of(f"aten::_scaled_dot_product_{name}_attention", [*map(list, (query, key, value)), "", ""]) == theirs
        )
    gradient = (*query[:3], out)
    if shared == 1:
        for name in ("flash", "efficient", "cudnn"):
            operator = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention_backward")
            theirs = flop_registry[operator](gradient, query, key, value, out_val=None)
            dims = [*map(list, (gradient, query, key, value)), "", ""]
            assert flop_of(f"aten::_scaled_dot_product_{name}_attention_backward", dims) == theirs


@given(st.integers(1, 12), st.integers(0, 8))
def test_causal_masks_are_torchs(queries: int, more: int) -> None:
    for from_end, bias in ((False, causal_upper_left), (True, causal_lower_right)):
        visible = bias(queries, queries + more)._materialize(torch.device("cpu"))
        assert Mask(None, 0, from_end).pairs(queries, queries + more) == int(visible.sum())


def test_torch_masks_as_we_count() -> None:
    """What SDPA lets through with `is_causal`, by what comes out of values that are one at one key each."""
    for queries, keys in ((3, 5), (5, 3), (4, 4)):
        values = torch.eye(keys)[None, None]
        seen = torch.nn.functional.scaled_dot_product_attention(
            torch.zeros(1, 1, queries, 8), torch.zeros(1, 1, keys, 8), values, is_causal=True
        )
        dims: Dims = [[1, 1, queries, 8], [1, 1, keys, 8], [1, 1, keys, keys]]
        assert flop_of("aten::scaled_dot_product_attention", dims, {5: "True"}) == 2 * (8 + keys) * int(
            (seen > 0).sum()
        )
