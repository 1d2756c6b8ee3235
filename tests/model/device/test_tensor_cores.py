"""Matrix units, told by the names of kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope.model.device.tensor_cores import matrix_unit

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden" / "tensorboard_plugin"

YES = [
    "volta_h884gemm_128x128_ldg8_nn",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_relu_f2f_stages_64x4_tn",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x128_32x3_nt_align1>(Params)",
    "void cutlass::Kernel2<cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align1>(Params)",
    "void cutlass::Kernel<cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1>(Params)",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_tensor16x8x8",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
    "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1",
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2",
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1",
    "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0_APM1",
    "Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2",
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3",
    "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16>",
]
NO = [
    "volta_sgemm_128x32_nt",
    "ampere_sgemm_128x64_nn",
    "ampere_gcgemm_64x64_nt",
    "volta_scudnn_128x128_stridedB_splitK_small_nn_v1",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel",
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm75(PyTorchMemEffAttention::AttentionKernel)",
    "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<128, 64>>",
    "void pytorch_flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4>",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "igemm_fwd_gtc_nchw_fp32_bt128x128x16",
    "triton_poi_fused_add_0",
    "Memcpy HtoD (Pageable -> Device)",
]
UNKNOWN = ["triton__0d1d2d", "triton_tem_fused_mm_3", "triton_red_fused_mm_0", "my_kernel", "pe_exe", ""]


@pytest.mark.parametrize(
    ("name", "expected"),
    [*((name, "yes") for name in YES), *((name, "no") for name in NO), *((name, "unknown") for name in UNKNOWN)],
)
def test_what_names_tell(name: str, expected: str) -> None:
    assert matrix_unit(name) == expected


def test_the_plugins_flags_are_confirmed() -> None:
    tables = list(GOLDEN.rglob("*kernel_table_Kernel.json"))
    if not tables:
        pytest.skip("the plugin's golden values are not part of the project")
    flags = {row[0]: row[1] for table in tables for row in json.loads(table.read_text())["data"]["rows"]}
    assert "Yes" in flags.values()
    assert {name for name, flag in flags.items() if matrix_unit(name) != flag.lower()} == {"relu_kernel"}  # made up
    assert matrix_unit("relu_kernel") == "unknown"
