"""Names of kernels in little room."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.views.grammar import short
from kinetoscope.views.names import briefs, short_names, shortened
from kinetoscope.views.text import cells

COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(%s)#1}, std::array<char*, 2ul>, 4,"
    " TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithoutCast>(int, std::array<char*, 2ul>)"
)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::Fill<int>, std::array<char*, 1ul> >(int)",
            "vectorized_elementwise_kernel<4, Fill<int>>",
        ),
        (
            "void at::native::elementwise_kernel<9, at::native::gpu_kernel_impl<Add<int> >(int)::{lambda(int)#1}>(int)",
            "elementwise_kernel<9, Add<int>>",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*, int)",
            "CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>",
        ),
        (COPY % "float", "unrolled_elementwise_kernel<direct_copy_kernel_cuda, 4>"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllGather_RING_LL"),
        ("void cutlass::Kernel2<cutlass_80_gemm>(cutlass_80_gemm::Params)", "cutlass::Kernel2<cutlass_80_gemm>"),
        ("Cijk_Ailk(int) [clone .kd]", "Cijk_Ailk"),
        ("aten::mm", "aten::mm"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("torch/nn/modules/linear.py(114): forward", "torch/nn/modules/linear.py(114): forward"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0"),
        ("void at::native::cut_off<float, at::native::f(int, ", "cut_off<float, f"),
    ],
)
def test_a_kernel_is_named_by_its_functor(name: str, seen: str) -> None:
    assert short(name) == seen


def test_what_differs_in_types_alone_keeps_them() -> None:
    assert shortened([COPY % "float", COPY % "long"]) == [
        "unrolled_elementwise_kernel<direct_copy_kernel_cuda(float), 4>",
        "unrolled_elementwise_kernel<direct_copy_kernel_cuda(long), 4>",
    ]


def test_what_is_cut_is_what_rows_share() -> None:
    names = [
        f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{size}x64_warpgroupsize1x1x1_cublas" for size in (64, 128)
    ]
    assert shortened(names, 40) == [
        "sm90_xmma_gem…size64x64_warpgroupsize1x…",
        "sm90_xmma_gem…size128x64_warpgroupsize1…",
    ]


@given(st.lists(st.text(st.sampled_from("ab<>(), :{}#1void atnative"), max_size=60), max_size=8), st.integers(16, 50))
def test_names_that_differ_are_never_shown_alike(names: list[str], width: int) -> None:
    shown = shortened(names, width)
    assert all(cells(text) <= width for text in shown)
    assert len(set(shown)) == len(set(names))
    assert [shown[names.index(name)] for name in names] == shown


def test_only_what_is_shown_otherwise_is_told() -> None:
    frame = pl.DataFrame({"name": ["aten::mm", COPY % "int", None], "calls": [1, 2, 3]})
    assert short_names(frame) == {COPY % "int": "unrolled_elementwise_kernel<direct_copy_kernel_cuda, 4>"}


def test_names_of_a_list_that_differ_in_the_middle_are_not_shown_alike() -> None:
    tiles = [
        f"sm80_xmma_gemm_f32f32_tn_n_tilesize{tile}_stage3_execute_kernel__5x_cublas" for tile in ("64x64", "32x64")
    ]
    shown = briefs([*tiles, "void at::native::add<float>(int)", tiles[0]], 48)
    assert "size64x64" in shown[0]
    assert "size32x64" in shown[1]
    assert shown[2:] == ["void at::native::add<float>(int)", shown[0]]
    assert max(map(len, shown)) <= 48
