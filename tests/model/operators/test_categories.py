"""Categories by name: of operators, and of kernels whose operator is not known."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import categories, operators
from kinetoscope.model.operators.categories import category
from kinetoscope.reading import read
from tests import drawn
from tests.catalog.samples import SHARED, required

NAMES = {
    "GEMM": "aten::mm aten::addmm aten::baddbmm aten::linear AddmmBackward0 aten::_scaled_mm aten::_grouped_mm"
    " aten::mv aten::einsum quantized::linear aten::_cudnn_rnn nvjet_tst_128x64 volta_sgemm_128x32_nn"
    " ampere_fp16_s16816gemm cutlass_80_tensorop_s1688gemm Cijk_Alik_Bljk_BBS_MT32x32x256_MI16x16x1"
    " triton_tem_fused_mm_0 gptq_marlin_gemm",
    "attention": "aten::_scaled_dot_product_flash_attention aten::_flash_attention_backward"
    " flash_attn::_flash_attn_forward FlashAttnFuncBackward aiter::mha_batch_prefill"
    " fmhaSm100aKernel_QkvE4m3 kernel_unified_attention_3d vllm::unified_attention_with_output",
    "convolution": "aten::conv2d aten::cudnn_convolution aten::convolution_backward ConvolutionBackward0"
    " aten::miopen_convolution igemm_wrw_gtcx3_nhwc_bf16 cudnn::winograd_nonfused volta_scudnn_128x64_relu",
    "MoE": "vllm::moe_forward fused_moe_kernel _matmul_ogs_NNT_bf16 moe::dev::routing::routingIndicesHistogramKernel",
    "normalization": "aten::cudnn_batch_norm aten::native_layer_norm NativeLayerNormBackward0 _C::fused_add_rms_norm"
    " triton_red_fused_native_layer_norm_3 cudnn::bn_fw_tr_1C11_kernel_NCHW",
    "softmax": "aten::_softmax aten::_log_softmax_backward_data softmax_warp_forward triton_per_fused__softmax_2",
    "reduction": "aten::sum aten::mean aten::max aten::nll_loss_forward aten::max_pool2d_with_indices aten::cumsum"
    " triton_red_fused_sum_1 at::native::reduce_kernel<512> aten::linalg_vector_norm",
    "elementwise": "aten::add_ aten::mul aten::where aten::masked_fill_ aten::maximum aten::native_dropout MulBackward0"
    " triton_poi_fused_convolution_relu_0 at::native::vectorized_elementwise_kernel<4,std::array<char*,2>>"
    " _C::rotary_embedding fbgemm::FloatToFP8RowwiseQuantized aten::copysign aten::clamp_max",
    "embedding": "aten::embedding aten::embedding_dense_backward fbgemm::bounds_check_indices"
    " torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
    "indexing": "aten::index aten::_index_put_impl_ aten::gather aten::scatter_add_ aten::topk aten::sort",
    "optimizer": "aten::_foreach_add_ aten::_fused_adamw_ multi_tensor_apply_kernel",
    "copy": "aten::copy_ aten::cat aten::fill_ aten::clone aten::contiguous direct_copy_kernel_cuda"
    " batched_transpose_32x32 _C_cache_ops::reshape_and_cache_flash",
    "communication": "c10d::_allgather_base_ nccl:all_reduce record_param_comms",
    "other": "aten::view aten::empty CompiledFunction Torch-Compiled my::operator triton__0d1d2d spin_kernel",
}


@pytest.mark.parametrize(("name", "expected"), [(name, key) for key, names in NAMES.items() for name in names.split()])
def test_what_names_compute(name: str, expected: str) -> None:
    assert category(name) == expected


TRACES = {
    "owlv2_h100": 0.0,
    "resnet50_v100/num_workers_0": 0.0,
    "resnet_ddp_mi300": 0.0,
    "eager_b200": 0.0,
    "queue_length": 0.02,  # Triton before it named kernels
    "../samples/serving/vllm_decode_full/graph_execution.json.gz": 0.0,
    "../samples/serving/sglang_prefilldecode": 0.001,
}
"""Device time of real jobs that no name tells, at most."""


@pytest.mark.slow
@pytest.mark.parametrize(("path", "most"), TRACES.items())
def test_names_tell_nearly_all_the_time_of_real_jobs(path: str, most: float) -> None:
    folder = SHARED / path
    required(folder)
    frame = categories(read(Path(folder))).frame
    assert frame.filter(pl.col("category") == "other").get_column("share").sum() <= most


@pytest.mark.parametrize(("steps", "expected"), [(1, ["optimizer", "optimizer"]), (0, ["copy", "elementwise"])])
def test_lists_of_tensors_are_the_optimizers_where_there_is_one(
    tmp_path: Path, steps: int, expected: list[str]
) -> None:
    """A decode step copies many tensors in one call, too."""
    copies = [drawn.op("aten::_foreach_copy_", 10, 20), drawn.launch(15, 5, 1), drawn.kernel("multi_tensor", 40, 9, 1)]
    adds = [drawn.op("aten::_foreach_add_", 50, 20), drawn.launch(55, 5, 2), drawn.kernel("multi_tensor", 80, 7, 2)]
    marks = [drawn.annotation("Optimizer.step#AdamW.step", 0, 100)] * steps
    job = drawn.job(tmp_path, *marks, *copies, *adds)
    found = operators(job).frame.filter(pl.col("name").str.contains("_foreach_")).sort("device_self", descending=True)
    assert found["category"].to_list() == expected
    assert sorted(categories(job).frame["category"].to_list()) == sorted(set(expected))
