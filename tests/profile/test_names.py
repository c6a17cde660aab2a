import pytest

from phasewise.profile.names import (
    base_name,
    categorise_kernel,
    categorise_operator,
    guess_dtype,
    is_bookkeeping,
    uses_tensor_cores,
)

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<float> > >(x)"


@pytest.mark.parametrize(
    ("name", "category", "tensor_core", "dtype"),
    [
        ("nvjet_tst_192x192_64x4_1x2_h_bz_coopB_NNT", "gemm", True, ""),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", "gemm", True, "bfloat16"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "gemm", True, "bfloat16"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(cutlass_80_simt_sgemm::Params)", "gemm", False, "float32"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)", "gemm", True, "tf32"),
        ("ampere_sgemm_128x64_tn", "gemm", False, "float32"),
        ("triton_tem_fused_mm_0", "gemm", True, ""),
        ("void splitKreduce_kernel<32, 16, int, float, float>(cublasSplitKParams)", "gemm", False, "float32"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t> >(Flash_fwd_params)", "attention", True, "bfloat16"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "attention", True, "float32"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "convolution", True, "tf32"),
        (ELEMENTWISE, "elementwise", False, "float32"),
        (REDUCE, "reduction", False, "bfloat16"),
        ("triton_poi_fused_add_relu_0", "elementwise", False, ""),
        ("triton_red_fused_sum_1", "reduction", False, ""),
        ("void cub::DeviceScanKernel<cub::Policy, float const*>(x)", "scan", False, "float32"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", False, "float32"),
        ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)", "copy", False, "int32"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<double>(double*)", "copy", False, "float64"),
        ("my_own_thing", "other", False, ""),
    ],
)  # fmt: skip
def test_kernels_are_told_by_their_names(name, category, tensor_core, dtype):
    assert (categorise_kernel(name), uses_tensor_cores(name), guess_dtype(name)) == (category, tensor_core, dtype)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("aten::addmm", "gemm"), ("aten::bmm", "gemm"), ("aten::convolution_backward", "convolution"), ("aten::add_", "elementwise"),
        ("aten::_foreach_add_", "elementwise"), ("aten::tanh_backward", "elementwise"), ("aten::sum", "reduction"),
        ("aten::_softmax_backward_data", "reduction"), ("aten::cumsum", "scan"), ("aten::copy_", "copy"), ("aten::cat", "copy"),
        ("aten::_scaled_dot_product_flash_attention", "attention"), ("c10d::allreduce_", "communication"),
        ("gloo:all_reduce", "communication"), ("aten::index_add_", "other"), ("mylib::thing", "other"), ("AddBackward0", "other"),
    ],
)  # fmt: skip
def test_operators_are_told_by_their_names(name, category):
    assert categorise_operator(name) == category


def test_views_allocations_and_autograd_are_bookkeeping_and_arithmetic_is_not():
    for name in (
        "aten::view",
        "aten::t",
        "aten::empty_like",
        "aten::resize_",
        "aten::item",
        "AddBackward0",
        "autograd::engine::x",
    ):
        assert is_bookkeeping(name), name
    for name in ("aten::mm", "aten::add", "aten::copy_", "aten::fill_", "mylib::scan"):
        assert not is_bookkeeping(name), name


def test_the_function_name_is_what_is_left_without_types_templates_and_namespaces():
    assert base_name(ELEMENTWISE) == "vectorized_elementwise_kernel"
    assert base_name("void at::native::(anonymous namespace)::fill<4, float>(int, float*)") == "fill"
    assert base_name("ampere_sgemm_128x64_tn") == "ampere_sgemm_128x64_tn"
    assert base_name("void f<g<h<1>>, (bool)1>(int)") == "f"
