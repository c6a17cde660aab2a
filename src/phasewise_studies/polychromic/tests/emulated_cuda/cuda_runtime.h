// Enough of CUDA to run the kernels of a decoded token on a CPU: clusters one after the other, the threads of one in turns.
//
// A thread is a context that runs until it waits: for its warp in a shuffle or a product, for its block at __syncthreads, for its
// cluster or for what other blocks send it. A launch gives every block shared memory of its own; what a kernel declares __shared__
// is static, one for all, which only blocks without a cluster can use.
#pragma once

#include <setjmp.h>
#include <stdint.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
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
struct alignas(16) float4 { float x, y, z, w; };
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
template <class T> T __ldg(const T* from) { return *from; }
template <class T> T __ldcg(const T* from) { return *from; }
inline float __uint_as_float(uint32_t bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline float __int_as_float(int bits) { return __uint_as_float(uint32_t(bits)); }
inline int __float_as_int(float x) { int bits; std::memcpy(&bits, &x, 4); return bits; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline float rsqrtf(float x) { return 1.f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

struct Meeting { int everyone, arrived = 0, turn = 0; };
// values of two turns: while one is read, the next is written
struct Warp { Meeting meeting = {32}; uint64_t given[2][32]; };
struct Block { Meeting meeting; std::vector<float> memory; std::vector<Warp> warps; };
struct Thread {
    static constexpr int kStack = 1 << 16;
    ucontext_t start;
    jmp_buf at;
    std::unique_ptr<char[]> stack{new char[kStack]};
    int index, rank, cluster_turn;
    // may go on when this is no longer `seen`
    const int* awaited;
    int seen;
    bool has_begun, is_done;
};

inline std::vector<Thread> threads;
inline std::vector<Block> blocks;
inline Meeting of_cluster;
inline unsigned first_block;
inline Thread* now;
inline float* memory;
inline jmp_buf scheduler;
inline std::function<void()> body;

inline Block& block() { return blocks[now->rank]; }
inline Warp& warp() { return block().warps[now->index / 32]; }

// swapcontext would ask the operating system each time
[[gnu::noinline]] inline void await(const int& number, int seen) {
    if (number != seen) return;
    now->awaited = &number, now->seen = seen;
    if (!_setjmp(now->at)) _longjmp(scheduler, 1);
}
inline int arrive(Meeting& meeting) {
    const int turn = meeting.turn;
    if (++meeting.arrived == meeting.everyone) meeting.arrived = 0, ++meeting.turn;
    return turn;
}
inline void meet(Meeting& meeting) { await(meeting.turn, arrive(meeting)); }

inline void enter() {
    body();
    now->is_done = true;
    _longjmp(scheduler, 1);
}

// until it waits
[[gnu::noinline]] inline void resume(Thread& thread) {
    now = &thread;
    threadIdx = dim3(thread.index), blockIdx = dim3(first_block + thread.rank), memory = block().memory.data();
    if (_setjmp(scheduler)) return;
    if (thread.has_begun) _longjmp(thread.at, 1);
    thread.has_begun = true;
    setcontext(&thread.start);
}

// Whether any of these threads went on. Each block, and in it each warp, goes as far as it can by itself, in both orders in turn:
// nothing may lean on the pace of others.
inline bool advance(int first, int count) {
    Thread& thread = threads[first];
    if (count == 1) {
        if (thread.is_done || (thread.awaited && *thread.awaited == thread.seen)) return false;
        resume(thread);
        return true;
    }
    const int of_block = blockDim.x, part = count > of_block ? of_block : count > 32 ? 32 : 1;
    for (int pass = 0;; ++pass) {
        bool has_any = false;
        for (int at = 0; at < count; at += part) has_any |= advance(first + (pass % 2 ? count - part - at : at), part);
        if (!has_any) return pass > 0;
    }
}

// one cluster of so many blocks, with so many bytes of shared memory each; false if in the end threads wait for what never comes
inline bool run_cluster(int size, size_t bytes) {
    const int each = blockDim.x, everyone = size * each;
    if (int(threads.size()) < everyone) threads = std::vector<Thread>(everyone);
    of_cluster = {everyone};
    // what nobody writes is no number
    blocks.assign(size, {{each}, std::vector<float>((bytes + 3) / 4, NAN), std::vector<Warp>(each / 32)});
    for (int i = 0; i < everyone; ++i) {
        Thread& thread = threads[i];
        thread.index = i % each, thread.rank = i / each, thread.cluster_turn = 0;
        thread.awaited = nullptr, thread.has_begun = thread.is_done = false;
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = thread.stack.get(), thread.start.uc_stack.ss_size = Thread::kStack;
        makecontext(&thread.start, enter, 0);
    }
    advance(0, everyone);
    const auto last = threads.begin() + everyone, stuck = std::find_if(threads.begin(), last, [](Thread& t) { return !t.is_done; });
    if (stuck == last) return true;
    std::fprintf(stderr, "deadlock: %d threads of %d wait for ever, the first is thread %d of block %d\n",
                 int(std::count_if(stuck, last, [](Thread& t) { return !t.is_done; })), everyone, stuck->index,
                 int(first_block) + stuck->rank);
    return false;
}

// every lane's value, for all of its warp
template <class T>
std::array<T, 32> gather(T value) {
    uint64_t(&given)[32] = warp().given[warp().meeting.turn % 2];
    std::memcpy(&given[now->index % 32], &value, sizeof(T));
    meet(warp().meeting);
    std::array<T, 32> found;
    for (int i = 0; i < 32; ++i) std::memcpy(&found[i], &given[i], sizeof(T));
    return found;
}

}  // namespace emulated

inline void __syncthreads() { emulated::meet(emulated::block().meeting); }
template <class T> T __shfl_sync(unsigned, T value, int from) { return emulated::gather(value)[from % 32]; }
template <class T> T __shfl_xor_sync(unsigned, T value, int step) { return emulated::gather(value)[(threadIdx.x % 32) ^ step]; }
template <class T> T __shfl_up_sync(unsigned, T value, int step) {
    const int lane = threadIdx.x % 32;
    return emulated::gather(value)[lane < step ? lane : lane - step];
}
inline unsigned __ballot_sync(unsigned, bool is) {
    unsigned bits = 0, lane = 0;
    for (const bool has : emulated::gather(is)) bits |= unsigned(has) << lane++;
    return bits;
}

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorLaunchTimeout = 702 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeClusterDimension };
using cudaStream_t = void*;
struct cudaLaunchAttribute { int id; struct { int programmaticStreamSerializationAllowed; dim3 clusterDim; } val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; int numAttrs; };
template <class K> cudaError_t cudaFuncSetAttribute(K, int, int) { return cudaSuccess; }
template <class... P>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), P... arguments) {
    int size = 1;
    for (int i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) size = config->attrs[i].val.clusterDim.x;
    gridDim = config->gridDim, blockDim = config->blockDim;
    emulated::body = [&] { kernel(arguments...); };
    for (unsigned& first = emulated::first_block = 0; first < gridDim.x; first += size)
        if (!emulated::run_cluster(size, config->dynamicSmemBytes)) return cudaErrorLaunchTimeout;
    return cudaSuccess;
}
