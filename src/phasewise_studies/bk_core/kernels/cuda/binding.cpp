// diagonal(a, b, c, energy, eta, causal, sharp) -> complex64 (batch, length), for torch.utils.cpp_extension.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include "rows.h"

static at::Tensor diagonal(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, double energy, double eta,
                           bool causal, bool sharp) {
    for (const at::Tensor* tensor : {&a, &b, &c}) {
        TORCH_CHECK(tensor->is_cuda() && tensor->scalar_type() == at::kFloat, "a, b and c must be float32 on a GPU");
    }
    TORCH_CHECK(a.dim() == 2 && a.is_contiguous(), "a must be (batch, length), contiguous");
    TORCH_CHECK(b.dim() == 1 && c.dim() == 1 && b.size(0) == a.size(1) - 1 && c.size(0) == a.size(1) - 1,
                "b and c must be (length - 1,)");
    const c10::cuda::CUDAGuard guard(a.device());
    at::Tensor out = at::empty(a.sizes(), a.options().dtype(at::kComplexFloat));
    at::Tensor states = at::empty({a.size(0), count_segments(int(a.size(1))), 64}, a.options());
    if (a.numel() == 0) return out;
    C10_CUDA_CHECK(launch_rows(reinterpret_cast<float*>(out.data_ptr<c10::complex<float>>()), a.const_data_ptr<float>(),
                               b.const_data_ptr<float>(), c.const_data_ptr<float>(), states.data_ptr<float>(), float(energy),
                               float(eta), int(a.size(0)), int(a.size(1)), b.size(0) ? b.stride(0) : 1,
                               c.size(0) ? c.stride(0) : 1, causal, sharp, c10::cuda::getCurrentCUDAStream()));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("diagonal", &diagonal, py::call_guard<py::gil_scoped_release>());
}
