from __future__ import annotations

import pytest

from phasewise.model.kernel_names import LONGEST, shorten_kernel


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::(anonymous namespace)::fill<4, at::Half>(int, at::Half*)", "fill<4, Half>"),
        ("(anonymous namespace)::sample_kernel((anonymous namespace)::Sample)", "sample_kernel"),
        ("void (anonymous namespace)::gate_up_kernel<1>(Token, int)", "gate_up_kernel<1>"),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda("
            "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}>"
            "(at::TensorIteratorBase&, int const&)::{lambda(int)#1}>(int, int)",
            "elementwise_kernel<128, 4, gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>",
        ),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pinned)"),
        ("nvjet_sm90_tst_48x64_64x15_4x2_h_bz_TNN", "nvjet_sm90_tst_48x64_64x15_4x2_h_bz_TNN"),
        ("(30 others)", "(30 others)"),
        ("", ""),
    ],
)
def test_a_name_without_what_stands_around_it(name: str, short: str) -> None:
    assert shorten_kernel(name) == short


def test_of_a_long_name_both_ends_stay() -> None:
    name = f"triton_poi_fused_{'add_mul_' * 20}18"
    short = shorten_kernel(name)
    assert len(short) <= LONGEST
    assert short.startswith("triton_poi_fused_add")
    assert short.endswith("mul_18")
