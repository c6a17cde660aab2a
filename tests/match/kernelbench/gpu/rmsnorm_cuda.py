import torch
import torch.nn as nn

SOURCE = """
extern "C" __global__ void rmsnorm(const float* x, const float* weight, float* y, int features) {
    __shared__ float parts[32];
    const float* row = x + (size_t)blockIdx.x * features;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < features; i += blockDim.x) sum += row[i] * row[i];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < blockDim.x / 32; ++i) sum += parts[i];
    float scale = rsqrtf(sum / features + 1e-5f);
    for (int i = threadIdx.x; i < features; i += blockDim.x)
        y[(size_t)blockIdx.x * features + i] = row[i] * scale * weight[i];
}
"""


class ModelNew(nn.Module):
    """Right, and one kernel: CUDA, compiled when it is built."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))
        self.kernel = torch.cuda._compile_kernel(SOURCE, "rmsnorm")

    def forward(self, x):
        y = torch.empty_like(x)
        self.kernel((x.shape[0], 1, 1), (256, 1, 1), (x, self.weight, y, x.shape[1]))
        return y
