// decode_sample.cuh on a CPU: the threads of a cluster take turns, each running until it waits for others.
// usage: emulated_cluster rows inverse_temperature top_p < logits uniforms (float32) > tokens (int64) chosen (float32)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define EMULATED
#define __device__ static
#define __global__ static
#define __launch_bounds__(...)

struct Index { int x; };
static Index threadIdx, blockIdx;
using std::max, std::min;

struct Thread { ucontext_t context; int index, rank; bool ended; std::vector<char> stack; };
static std::vector<Thread> threads;
static Thread* now;
static ucontext_t scheduler;

static void pause() { swapcontext(&now->context, &scheduler); threadIdx.x = now->index; }

// opens when all have come
struct Gate {
    int everyone, come = 0, times = 0;
    void pass() {
        int before = times;
        if (++come == everyone) come = 0, ++times;
        while (times == before) pause();
    }
};
// as the hardware counts: one arrival, which says how many bytes, and those bytes
struct Barrier { int arrivals = 1, bytes = 0, times = 0; };
static void settle(Barrier* b) { if (!b->arrivals && !b->bytes) b->arrivals = 1, ++b->times; }
static void make_barrier(Barrier* b) { *b = {}; }
static void expect(Barrier* b, int bytes) { --b->arrivals; b->bytes += bytes; settle(b); }
static void wait(Barrier* b, int parity) { while (b->times % 2 == parity) pause(); }

static int lane() { return threadIdx.x % 32; }
static int warp() { return threadIdx.x / 32; }
static int cluster_rank() { return now->rank; }
static void follow() {}
static std::vector<Gate> warps, blocks;
static Gate cluster = {0};
static std::vector<uint32_t> given;
static void cluster_arrive() {}
static void cluster_wait() { cluster.pass(); }
static void __syncthreads() { blocks[now->rank].pass(); }

static uint32_t __float_as_uint(float x) { uint32_t u; std::memcpy(&u, &x, 4); return u; }
static int __float_as_int(float x) { return int(__float_as_uint(x)); }
static float __int_as_float(int u) { float x; std::memcpy(&x, &u, 4); return x; }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
static int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
template <class T> static T __ldcg(const T* from) { return *from; }

static uint32_t* of_warp();
template <class F> static auto among_warp(uint32_t mine, F read) {
    Gate& gate = warps[of_warp() - given.data() >> 5];
    of_warp()[lane()] = mine;
    gate.pass();
    auto found = read(of_warp());
    gate.pass();
    return found;
}
static float __shfl_sync(unsigned, float x, int from) {
    return among_warp(__float_as_uint(x), [&](uint32_t* all) { return __int_as_float(int(all[from & 31])); });
}
static float __shfl_xor_sync(unsigned mask, float x, int step) { return __shfl_sync(mask, x, lane() ^ step); }
static float __shfl_up_sync(unsigned mask, float x, int step) { return __shfl_sync(mask, x, lane() >= step ? lane() - step : lane()); }
static unsigned __ballot_sync(unsigned, bool is) {
    return among_warp(is, [](uint32_t* all) { unsigned bits = 0; for (int i = 0; i < 32; ++i) bits |= all[i] << i; return bits; });
}
static float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0, value, step);
    return value;
}
static void send(float* to, Barrier* barrier, int rank, float value);

#include "decode_sample.cuh"

static std::vector<SampleMemory> memories(kCluster);
static uint32_t* of_warp() { return &given[(now->rank * kSampleWarps + warp()) * 32]; }
// what lies in this block's memory, in that of another
template <class T> static T* in_block(T* at, int rank) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(at) + (rank - now->rank) * long(sizeof(SampleMemory)));
}
static void send(float* to, Barrier* barrier, int rank, float value) {
    Barrier* there = in_block(barrier, rank);
    *in_block(to, rank) = value;
    there->bytes -= 4;
    settle(there);
}

static Sample sample;
static void begin() { sample_row(sample, memories[now->rank]); now->ended = true; swapcontext(&now->context, &scheduler); }

int main(int, char** words) {
    int rows = std::atoi(words[1]), everyone = kCluster * kSampleThreads;
    std::vector<float> logits(size_t(rows) * VOCABULARY), uniforms(rows), chosen(rows, NAN);
    std::vector<int64_t> tokens(rows, -1);
    int64_t at = 0;
    for (auto* values : {&logits, &uniforms}) if (std::fread(values->data(), 4, values->size(), stdin) != values->size()) return 1;
    sample = {logits.data(), uniforms.data(), tokens.data(), chosen.data(), &at, 1, float(std::atof(words[2])), float(std::atof(words[3]))};
    threads.resize(everyone);
    for (Thread& thread : threads) thread.stack.resize(32768);
    for (int row = 0; row < rows; ++row) {
        warps.assign(kCluster * kSampleWarps, {32}), blocks.assign(kCluster, {kSampleThreads}), cluster = {everyone};
        given.assign(everyone, 0);
        std::memset(static_cast<void*>(memories.data()), 0xff, kCluster * sizeof(SampleMemory));
        for (int i = 0; i < everyone; ++i) {
            Thread& thread = threads[i];
            thread.index = i % kSampleThreads, thread.rank = i / kSampleThreads, thread.ended = false;
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = thread.stack.data();
            thread.context.uc_stack.ss_size = thread.stack.size();
            makecontext(&thread.context, begin, 0);
        }
        // backwards every other time: nothing may lean on the order
        for (int left = everyone, pass = 0; left > 0; ++pass)
            for (int i = 0; i < everyone; ++i) {
                now = &threads[pass % 2 ? everyone - 1 - i : i];
                if (now->ended) continue;
                blockIdx.x = row * kCluster + now->rank, threadIdx.x = now->index;
                swapcontext(&scheduler, &now->context);
                left -= now->ended;
            }
    }
    std::fwrite(tokens.data(), 8, rows, stdout);
    std::fwrite(chosen.data(), 4, rows, stdout);
}
