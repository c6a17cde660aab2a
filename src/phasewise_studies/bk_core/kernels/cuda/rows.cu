// The kernel of rows.cuh for a GPU of compute capability 8.0 or newer (asynchronous copies), and its launch.
#include "rows.h"

#define DEVICE __device__
#define SEPARATE __noinline__
#define LANE (int(threadIdx.x) & 31)

__device__ __forceinline__ float shuffle(float value, int lane) { return __shfl_sync(0xFFFFFFFFu, value, lane); }
__device__ __forceinline__ void sync_warp() { __syncwarp(); }
__device__ __forceinline__ void sync_block() { __syncthreads(); }
__device__ __forceinline__ unsigned warp_max(unsigned bits) { return __reduce_max_sync(0xFFFFFFFFu, bits); }

// 1/x to 1 ulp in one instruction
__device__ __forceinline__ float inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// to base 2
__device__ __forceinline__ float logarithm(float x) { return __log2f(x); }

// Outside of the row nothing is read and zeros are written.
__device__ __forceinline__ void copy16(float* to, const float* from, bool inside) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy4(float* to, const float* from, bool inside) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(inside ? 4 : 0) : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#include "rows.cuh"

namespace {

template <bool CAUSAL, bool ALIGNED, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, 16 / WARPS) diagonal_rows(const Problem q) {
    extern __shared__ __align__(16) float memory[];
    float* k = memory + WARPS * SLOTS * SLOT;
    float* inner = k + q.segments * SLOT;
    stage_couplings(q, k, inner, threadIdx.x, blockDim.x);
    int warp = threadIdx.x / 32;
    walk_rows<CAUSAL, ALIGNED>(q, memory + warp * SLOTS * SLOT, k, inner, blockIdx.x * WARPS + warp, gridDim.x * WARPS);
}

template <bool CAUSAL, bool ALIGNED, int WARPS>
cudaError_t launch(const Problem& q, cudaStream_t stream) {
    int device, processors;
    size_t bytes = sizeof(float) * (size_t(WARPS) * SLOTS * SLOT + size_t(q.segments) * (SLOT + 32));
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) {
        error = cudaFuncSetAttribute(diagonal_rows<CAUSAL, ALIGNED, WARPS>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    }
    if (error != cudaSuccess) return error;
    int wanted = (q.batch + WARPS - 1) / WARPS, places = processors * (16 / WARPS);
    diagonal_rows<CAUSAL, ALIGNED, WARPS><<<wanted < places ? wanted : places, 32 * WARPS, bytes, stream>>>(q);
    return cudaGetLastError();
}

}  // namespace

int count_segments(int length) { return (length + SEGMENT - 1) / SEGMENT; }

cudaError_t launch_rows(float* out, const float* a, const float* b, const float* c, float* states, float energy, float eta,
                        int batch, int length, long long stride_b, long long stride_c, bool causal, bool sharp,
                        cudaStream_t stream) {
    Problem q = {out, a, b, c, states, energy, eta, batch, length, count_segments(length), stride_b, stride_c, sharp};
    // few rows: one warp a block, so that they spread over the device
    bool few = batch < 1024, aligned = length % 4 == 0;
    if (causal && aligned) return few ? launch<true, true, 1>(q, stream) : launch<true, true, 8>(q, stream);
    if (causal) return few ? launch<true, false, 1>(q, stream) : launch<true, false, 8>(q, stream);
    if (aligned) return few ? launch<false, true, 1>(q, stream) : launch<false, true, 8>(q, stream);
    return few ? launch<false, false, 1>(q, stream) : launch<false, false, 8>(q, stream);
}
