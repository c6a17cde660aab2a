import torch
import torch.nn as nn
from rmsnorm_cuda import SOURCE
from torch.utils.cpp_extension import load_inline

CALL = """
torch::Tensor call(torch::Tensor x, torch::Tensor weight) {
    auto y = torch::empty_like(x);
    rmsnorm<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""


class ModelNew(nn.Module):
    """Right, and an extension that is built by CUDA's own compiler."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))
        self.kernel = load_inline(
            "rmsnorm_inline",
            cpp_sources="torch::Tensor call(torch::Tensor x, torch::Tensor weight);",
            cuda_sources="#include <torch/types.h>\n#include <ATen/cuda/CUDAContext.h>\n" + SOURCE + CALL,
            functions=["call"],
        )

    def forward(self, x):
        return self.kernel.call(x, self.weight)
