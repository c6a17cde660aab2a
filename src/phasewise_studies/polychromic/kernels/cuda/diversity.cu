// Diversity of groups of unit vectors: D = 1 - (|s|^2 - sum |e_j|^2) / (n (n - 1)) with s = sum e_j, and the marginals
// A_j = D - D without e_j, from |s - e_j|^2 = |s|^2 - 2 s.e_j + |e_j|^2.
//
// One block a group. Threads of a warp read consecutive float4s of a vector, so that reads are coalesced; the group is kept in
// shared memory, read from device memory once. Built as a plain shared library: no Python, no PyTorch headers.

#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;

__device__ float warp_sum(float value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// e: (groups, n, width), width a multiple of 4; shared memory: n * width + width + 2 n + 32 floats
__global__ void diversity_kernel(const float* __restrict__ e, float* __restrict__ score, float* __restrict__ marginals,
                                 int n, int width) {
    extern __shared__ float memory[];
    float* rows = memory;
    float* total = rows + n * width;
    float* own = total + width;
    float* dot = own + n;
    float* parts = dot + n;
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
    const long long group = blockIdx.x;
    const float4* from = reinterpret_cast<const float4*>(e + group * n * width);
    float4* into = reinterpret_cast<float4*>(rows);
    for (int i = threadIdx.x; i < n * width / 4; i += blockDim.x) into[i] = __ldg(from + i);
    __syncthreads();

    float square = 0.f;
    for (int d = threadIdx.x; d < width; d += blockDim.x) {
        float sum = 0.f;
        for (int j = 0; j < n; ++j) sum += rows[j * width + d];
        total[d] = sum;
        square += sum * sum;
    }
    square = warp_sum(square);
    if (lane == 0) parts[warp] = square;
    __syncthreads();

    for (int j = warp; j < n; j += warps) {
        float norm = 0.f, with_total = 0.f;
        for (int d = lane; d < width; d += kWarp) {
            const float value = rows[j * width + d];
            norm += value * value;
            with_total += value * total[d];
        }
        norm = warp_sum(norm);
        with_total = warp_sum(with_total);
        if (lane == 0) {
            own[j] = norm;
            dot[j] = with_total;
        }
    }
    __syncthreads();

    // every thread adds the same few numbers in the same order
    float whole = 0.f, norms = 0.f;
    for (int w = 0; w < warps; ++w) whole += parts[w];
    for (int j = 0; j < n; ++j) norms += own[j];
    const float found = n > 1 ? 1.f - (whole - norms) / (float(n) * float(n - 1)) : 0.f;
    if (threadIdx.x == 0) score[group] = found;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        float without = 0.f;
        if (n > 2) {
            const float rest = whole - 2.f * dot[j] + own[j];
            without = 1.f - (rest - (norms - own[j])) / (float(n - 1) * float(n - 2));
        }
        marginals[group * n + j] = found - without;
    }
}

}  // namespace

// 0, or the cudaError_t of the launch
extern "C" int polychromic_diversity(const float* e, float* score, float* marginals, int groups, int n, int width,
                                     int threads, void* stream) {
    const size_t bytes = (static_cast<size_t>(n) * width + width + 2 * n + kWarp) * sizeof(float);
    if (bytes > 48 * 1024) {
        const cudaError_t raised =
            cudaFuncSetAttribute(diversity_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
        if (raised != cudaSuccess) return static_cast<int>(raised);
    }
    diversity_kernel<<<groups, threads, bytes, static_cast<cudaStream_t>(stream)>>>(e, score, marginals, n, width);
    return static_cast<int>(cudaGetLastError());
}
