"""What launches tell about calls whose lists of tensors were not recorded, and about generated kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.formulas.arguments import Cost
from tests import drawn

APPLY = "void multi_tensor_apply_kernel<TensorListMetadata<{}>, BinaryOpListAlphaFunctor<float, 2, 2, 0>, float>"
CHUNK = 1 << 16
LOST: dict[str, Any] = {"Input Dims": [[], []], "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", "2"]}


def costed(folder: Path, *events: drawn.Event) -> Cost | None:
    """The cost of the only call that has one."""
    variants = costed_calls(drawn.job(folder, *events).trace()).variants
    return variants[0].cost if variants else None


def called(name: str, kernels: list[tuple[str, list[int]]], **args: Any) -> list[drawn.Event]:
    """A call that launches kernels, each with its grid."""
    events = [drawn.op(name, 1000, 100, **args)]
    for k, (kernel, grid) in enumerate(kernels):
        events.append(drawn.launch(1001 + k, 0, k + 1))
        events.append(drawn.kernel(kernel, 2000 + 10 * k, 10, k + 1, grid=grid))
    return events


def accumulated(*shapes: list[int], passes: int = 1) -> list[drawn.Event]:
    """Nodes that accumulate gradients of these shapes, in each pass."""
    name = "torch::autograd::AccumulateGrad"
    args: list[dict[str, Any]] = [{"Input Dims": [shape], "Input type": ["float"]} for shape in shapes * passes]
    return [drawn.op(name, 2 * k, 1, **each) for k, each in enumerate(args)]


def test_the_blocks_of_a_list_bound_its_elements(tmp_path: Path) -> None:
    kernels = [(APPLY.format(1), [320, 1, 1]), (APPLY.format(1), [200, 1, 1]), ("memset", [999, 1, 1])]
    cost = costed(tmp_path, *called("aten::_foreach_mul_", kernels, **LOST))
    assert cost is not None
    least = (520 - 2 * 110) * CHUNK + 2 * 110
    assert (cost.bytes, cost.bytes_most) == (8 * least, 8 * 520 * CHUNK)


def test_a_launch_of_cuda_13_holds_more_tensors(tmp_path: Path) -> None:
    cost = costed(tmp_path, *called("aten::_foreach_mul_", [(APPLY.format(1), [2240, 1, 1])], **LOST))
    assert cost is not None
    assert cost.bytes == 8 * ((2240 - 770) * CHUNK + 770)


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_gradients_of_as_many_chunks_are_those_of_the_list(tmp_path: Path, passes: int) -> None:
    gradients = accumulated([1000, 100], [100], [7], passes=passes)
    cost = costed(tmp_path, *gradients, *called("aten::_foreach_mul_", [(APPLY.format(1), [4, 1, 1])], **LOST))
    assert cost is not None
    assert (cost.bytes, cost.bytes_most) == (8 * 100_107, None)


def test_gradients_of_other_chunks_are_not(tmp_path: Path) -> None:
    gradients = accumulated([1000, 100], [100], [7])
    cost = costed(tmp_path, *gradients, *called("aten::_foreach_mul_", [(APPLY.format(1), [2, 1, 1])], **LOST))
    assert cost is not None
    assert cost.bytes_most == 8 * 2 * CHUNK


@pytest.mark.parametrize(
    ("name", "lists", "passes"),
    [
        ("aten::_fused_adamw_", 4, 7),
        ("aten::_fused_adamw_", 5, 9),  # with the greatest second averages
        ("aten::_fused_sgd_", 2, 3),
        ("aten::_foreach_sqrt", 2, 2),  # not in place: one of the lists is the result
        ("aten::_foreach_add_", 2, 3),
        ("aten::_foreach_copy_", 2, 2),
        ("aten::_foreach_zero_", 1, 1),
    ],
)
def test_the_kernel_tells_how_many_lists_there_are(tmp_path: Path, name: str, lists: int, passes: int) -> None:
    cost = costed(tmp_path, *accumulated([10]), *called(name, [(APPLY.format(lists), [1, 1, 1])], **LOST))
    assert cost is not None
    assert cost.bytes == passes * 4 * 10


def test_blocks_tell_how_many_elements_an_index_takes(tmp_path: Path) -> None:
    kernel = "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel>>"
    args = {"Input Dims": [[888, 2880], []], "Input type": ["c10::BFloat16", ""], "Concrete Inputs": ["", ""]}
    cost = costed(tmp_path, *called("aten::index", [(kernel, [6, 1, 1])], **args))
    assert cost is not None
    assert (cost.bytes, cost.bytes_most) == (2 * (5 * 512 + 1), 12 * 6 * 512)


def test_the_gradient_tells_the_result_of_a_lost_list(tmp_path: Path) -> None:
    forward = {"Sequence number": 5, "Fwd thread id": 0, **LOST}
    node = {"Input Dims": [[640, 96]], "Input type": ["float"], "Sequence number": 5, "Fwd thread id": 1}
    cat = called("aten::cat", [("CatArrayBatchedCopy<float, unsigned int>", [8, 8, 1])], **forward)
    cost = costed(tmp_path, *cat, drawn.op("CatBackward0", 3000, 10, tid=2, **node))
    assert cost is not None
    assert cost.bytes == 2 * 4 * 640 * 96
    assert cost.outputs[0].shape == (640, 96)


def test_inductors_estimate_counts_else_its_tensors(tmp_path: Path) -> None:
    tensors = {"Input Dims": [[100], [100], []], "Input type": ["float", "c10::BFloat16", "Scalar"]}
    name = "triton_poi_fused_add_relu_0"
    plain = costed(tmp_path, *called(name, [(name, [1, 1, 1])], **tensors))
    told = costed(tmp_path, *called(name, [(name, [1, 1, 1])], kernel_num_gb=1e-6, kernel_flop=0, **tensors))
    assert plain is not None
    assert told is not None
    assert (plain.bytes, told.bytes) == (600, 1000)


def test_a_generated_product_has_the_operations_of_its_estimate(tmp_path: Path) -> None:
    name = "triton_tem_fused_mm_0"
    args = {
        "Input Dims": [[8, 8], [8, 8], [8, 8]],
        "Input type": ["float"] * 3,
        "kernel_flop": 1024,
        "kernel_num_gb": 1e-6,
    }
    counts = costed_calls(drawn.job(tmp_path, *called(name, [(name, [1, 1, 1])], **args)).trace())
    assert counts.flop.tolist() == [1024]
    assert counts.is_product.tolist() == [True]


def test_a_generated_kernel_that_gathers_may_read_in_part(tmp_path: Path) -> None:
    name = "triton_poi_fused_embedding_0"
    tensors = {"Input Dims": [[1000, 64], [10], [10, 64]], "Input type": ["float", "long int", "float"]}
    cost = costed(tmp_path, *called(name, [(name, [1, 1, 1])], **tensors))
    assert cost is not None
    assert (cost.bytes, cost.bytes_most) == (0, 4 * 64_000 + 80 + 4 * 640)


def sliced(tmp_path: Path, name: str, dims: list[list[int]], *numbers: int) -> Cost:
    """The cost of a generated kernel over tensors of 2 bytes, with the numbers that follow them."""
    tensors = {
        "Input Dims": [*dims, *([] for _ in numbers)],
        "Input type": [*("c10::BFloat16" for _ in dims), *("Scalar" for _ in numbers)],
        "Concrete Inputs": [*("" for _ in dims), *(str(number) for number in numbers)],
    }
    cost = costed(tmp_path, *called(name, [(name, [1, 1, 1])], **tensors))
    assert cost is not None
    return cost


def test_a_generated_kernel_that_only_moves_a_slice_reads_what_it_writes(tmp_path: Path) -> None:
    """Of a tensor of 4,429 rows it copies 333: the others are not read."""
    name = "triton_poi_fused__unsafe_view_clone_slice_transpose_13"
    cost = sliced(tmp_path, name, [[2, 38, 4429, 64], [2, 333, 2432]], 1_619_712)
    assert (cost.bytes, cost.bytes_most) == (2 * 2 * 1_619_712, None)


def test_a_generated_kernel_that_slices_may_read_in_part_what_it_does_not_go_through(tmp_path: Path) -> None:
    """Of the table of positions it reads a crop, for each picture the same."""
    name = "triton_red_fused_add_clone_convolution_native_layer_norm_slice_view_4"
    cost = sliced(tmp_path, name, [[2, 2432, 64, 64], [2432], [1, 36864, 2432]], 8192, 19, 128)
    every = 2432 * (2 * 64 * 64 + 1 + 36864)
    assert (cost.bytes, cost.bytes_most) == (2 * 2 * 2432 * 64 * 64, 2 * every)


def test_sizes_of_dynamic_shapes_are_not_gone_through(tmp_path: Path) -> None:
    cost = sliced(tmp_path, "triton_poi_fused_clone_slice_0", [[100, 64], [50, 64]], 50, 3200)
    assert (cost.bytes, cost.bytes_most) == (2 * 2 * 3200, None)


def test_without_numbers_a_generated_kernel_that_slices_may_read_any_part(tmp_path: Path) -> None:
    cost = sliced(tmp_path, "triton_poi_fused_clone_slice_0", [[100, 64], [50, 64]])
    assert (cost.bytes, cost.bytes_most) == (0, 2 * 64 * 150)


def test_optimizers_of_apex_have_no_operator(tmp_path: Path) -> None:
    kernel = "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, float, adamMode_t>(int)"
    events = [drawn.launch(1, 1, 1), drawn.kernel(kernel, 10, 10, 1, grid=[300, 1, 1])]
    cost = costed(tmp_path, *events)
    assert cost is not None
    assert cost.bytes == 7 * 4 * ((300 - 36) * CHUNK + 36)
    assert cost.is_range


def test_other_kernels_of_apex_pass_each_list_once(tmp_path: Path) -> None:
    kernel = "void multi_tensor_apply_kernel<TensorListMetadata<2>, ScaleFunctor<c10::Half, float>, float>(int)"
    cost = costed(tmp_path, drawn.launch(1, 1, 1), drawn.kernel(kernel, 10, 10, 1, grid=[300, 1, 1]))
    assert cost is not None
    assert cost.bytes == 2 * 2 * ((300 - 64) * CHUNK + 64)
