// Enough of CUDA to run the kernels of a decoded token on a CPU: blocks one after the other, the threads of a block in turns.
//
// A thread is a context that runs until it waits: for its warp in a shuffle or a product, for its block at __syncthreads. Shared
// memory is static, since only one block is at work.
#pragma once

#include <stdint.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)

using std::max;
using std::min;

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint4 { uint32_t x, y, z, w; };
struct alignas(8) float2 { float x, y; };
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
template <class T> T __ldg(const T* from) { return *from; }
template <class T> T __ldcg(const T* from) { return *from; }
inline float __uint_as_float(uint32_t bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline float rsqrtf(float x) { return 1.f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(1 << 16);
    bool is_done = false;
};
struct Meeting { int arrived = 0, turn = 0; };

inline std::vector<Thread> threads;
inline std::vector<Meeting> of_warps;
inline Meeting of_block;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline uint64_t slots[1024];

inline void step_aside() { swapcontext(&threads[threadIdx.x].context, &scheduler); }

inline void meet(Meeting& meeting, int everyone) {
    const int turn = meeting.turn;
    if (++meeting.arrived == everyone) meeting.arrived = 0, ++meeting.turn;
    while (meeting.turn == turn) step_aside();
}
inline void meet_warp() { meet(of_warps[threadIdx.x / 32], 32); }

inline void enter() {
    body();
    threads[threadIdx.x].is_done = true;
    step_aside();
}

inline void run_block(int count) {
    threads = std::vector<Thread>(count);
    of_warps = std::vector<Meeting>(count / 32);
    of_block = {};
    for (Thread& one : threads) {
        getcontext(&one.context);
        one.context.uc_stack = {one.stack.data(), 0, one.stack.size()};
        makecontext(&one.context, enter, 0);
    }
    for (bool is_busy = true; is_busy;) {
        is_busy = false;
        for (int i = 0; i < count; ++i) {
            if (threads[i].is_done) continue;
            is_busy = true;
            threadIdx = dim3(i);
            swapcontext(&scheduler, &threads[i].context);
        }
    }
}

// every lane's value, for all of its warp
template <class T>
std::vector<T> gather(T value) {
    const int first = threadIdx.x / 32 * 32;
    std::memcpy(&slots[threadIdx.x], &value, sizeof(T));
    meet_warp();
    std::vector<T> found(32);
    for (int i = 0; i < 32; ++i) std::memcpy(&found[i], &slots[first + i], sizeof(T));
    meet_warp();
    return found;
}

}  // namespace emulated

inline void __syncthreads() { emulated::meet(emulated::of_block, blockDim.x); }
template <class T> T __shfl_xor_sync(unsigned, T value, int step) { return emulated::gather(value)[(threadIdx.x % 32) ^ step]; }

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeClusterDimension };
using cudaStream_t = void*;
struct cudaLaunchAttribute { int id; struct { int programmaticStreamSerializationAllowed; dim3 clusterDim; } val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; int numAttrs; };
template <class K> cudaError_t cudaFuncSetAttribute(K, int, int) { return cudaSuccess; }
template <class... P>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), P... arguments) {
    gridDim = config->gridDim, blockDim = config->blockDim;
    emulated::body = [&] { kernel(arguments...); };
    for (unsigned block = 0; block < gridDim.x; ++block) {
        blockIdx = dim3(block);
        emulated::run_block(blockDim.x);
    }
    return cudaSuccess;
}
