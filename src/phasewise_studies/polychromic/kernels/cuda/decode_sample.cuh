// Temperature and top-p of one row by a cluster of eight blocks, without a sort (sampling.py has the definition).
//
//     nucleus = { t : p_t >= floor },  floor the largest whose nucleus has the mass top_p
//     token = the first at which the mass of the nucleus up to it reaches u times that of the whole
//
// A thread keeps p / p_max of its words, whose bits order as the numbers do. Those of the floor are found four at a time: of
// sixteen parts of the interval that holds it, the mass from each on is summed over warp, block and cluster. All additions have
// one order and all blocks the same numbers: they agree without a word, and every run gives the same bits.
//
// VOCABULARY is given to the compiler.

#pragma once

#include <decode_cluster.cuh>

#include "decode_product.cuh"

namespace {

constexpr int kCluster = 8, kSampleWarps = 16, kSampleThreads = 32 * kSampleWarps, kWays = 16;
// words of a block, and of each of its threads: every kSampleThreads-th
constexpr int kPart = (VOCABULARY + kCluster - 1) / kCluster, kWords = (kPart + kSampleThreads - 1) / kSampleThreads;
// a run is 32 neighbours: the words that a warp keeps side by side; a lane sees so many of them
constexpr int kRuns = kWords * kSampleWarps, kRunsOfLane = (kRuns + 31) / 32;
// the bits of 1.0f, the largest, are thirty
constexpr int kFirstShift = 26;
constexpr unsigned kAll = 0xffffffffu;

struct Sample {
    const float *logits, *uniforms;
    int64_t* tokens;
    float* chosen;
    const int64_t* at;
    int room;
    float inverse_temperature, top_p;
};

// two of what a meeting needs, in turn: while one is read, the next is written
struct SampleMemory {
    float of_warps[2][kSampleWarps][kWays];
    float of_blocks[2][kCluster][kWays];
    Barrier barriers[2];
    float runs[kRuns];
};

__device__ float add(float a, float b) { return a + b; }

// every lane's sums -> sum number lane / 2 of the warp: lanes exchange halves until one is left
template <int COUNT>
__device__ float gather_sums(const float (&sums)[COUNT]) {
    if constexpr (COUNT == 1) {
        return sums[0] + __shfl_xor_sync(kAll, sums[0], 1);
    } else {
        const bool is_upper = lane() & COUNT;
        float halves[COUNT / 2];
#pragma unroll
        for (int i = 0; i < COUNT / 2; ++i) {
            const float lower = sums[i], upper = sums[i + COUNT / 2];
            halves[i] = (is_upper ? upper : lower) + __shfl_xor_sync(kAll, is_upper ? lower : upper, COUNT);
        }
        return gather_sums(halves);
    }
}

// number lane / 2 of every warp of the row, combined in order
__device__ float meet(SampleMemory& memory, int turn, float value, float (*combine)(float, float)) {
    float(&of_warps)[kSampleWarps][kWays] = memory.of_warps[turn % 2];
    float(&of_blocks)[kCluster][kWays] = memory.of_blocks[turn % 2];
    Barrier* barrier = memory.barriers + turn % 2;
    of_warps[warp()][lane() / 2] = value;
    if (threadIdx.x == 0) expect(barrier, sizeof of_blocks);
    __syncthreads();
    // a thread a number and block that is told
    if (threadIdx.x < kCluster * kWays) {
        const int way = threadIdx.x % kWays;
        float found = of_warps[0][way];
#pragma unroll
        for (int w = 1; w < kSampleWarps; ++w) found = combine(found, of_warps[w][way]);
        send(&of_blocks[cluster_rank()][way], barrier, threadIdx.x / kWays, found);
    }
    wait(barrier, turn / 2 % 2);
    float found = of_blocks[0][lane() / 2];
#pragma unroll
    for (int block = 1; block < kCluster; ++block) found = combine(found, of_blocks[block][lane() / 2]);
    return found;
}

struct Place {
    int lane;
    // the running sum ahead of it
    float before;
};

// the first lane with something at which the running sum reaches the goal, or the last with something: it may end a rounding short
__device__ Place pick(float value, float before, float goal) {
    float running = value;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float lower = __shfl_up_sync(kAll, running, step);
        if (lane() >= step) running += lower;
    }
    running += before;
    const unsigned some = __ballot_sync(kAll, value > 0.f), enough = some & __ballot_sync(kAll, running >= goal);
    const int found = enough ? __ffs(enough) - 1 : 31 - __clz(some);
    const float lower = __shfl_sync(kAll, running, max(found - 1, 0));
    return {found, found > 0 ? lower : before};
}

__device__ void sample_row(const Sample& s, SampleMemory& memory) {
    // nothing is sent to a block that has not begun
    if (threadIdx.x == 0) make_barrier(memory.barriers), make_barrier(memory.barriers + 1);
    cluster_arrive();
    follow();
    const int row = blockIdx.x / kCluster, rank = cluster_rank(), first = rank * kPart;
    const int inside = min(kPart, VOCABULARY - first);
    const float* logits = s.logits + static_cast<int64_t>(row) * VOCABULARY + first;
    const int64_t place = static_cast<int64_t>(row) * s.room + __ldcg(s.at);
    const float u = s.uniforms[place];
    float p[kWords], largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        const int word = i * kSampleThreads + threadIdx.x;
        p[i] = word < inside ? __ldcg(logits + word) : -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) largest = fmaxf(largest, p[i]);
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, step));
    int turn = 0;
    cluster_wait();
    largest = meet(memory, turn++, largest, fmaxf);
    // p / p_max = 2^((z - z_max) / (T log 2)); without chance 1 for the largest and 0 for all others
    const float scale = s.inverse_temperature * 1.44269504f;
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        const float ratio = exp2f((p[i] - largest) * scale);
        sum += ratio;
        p[i] = s.top_p > 0.f ? ratio : p[i] == largest;
    }
    const float whole = meet(memory, turn++, warp_sum(sum), add), wanted = s.top_p * whole;
    // the mass from `low` on is enough, that from low + width on, `over`, is not; at the ends there is nothing to find
    int low = 0;
    float over = 0.f;
    const bool is_cut = s.top_p > 0.f && s.top_p < 1.f;
    for (int shift = kFirstShift, width = is_cut ? kWays << shift : 0; width > 1; width = 1 << shift, shift = max(shift - 4, 0)) {
        // number 0 counts
        float sums[kWays] = {};
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const unsigned offset = __float_as_int(p[i]) - low;
            // after a few rounds hardly a warp has anything in the interval
            if (offset >= width) continue;
            const int way = offset >> shift;
            sums[0] += 1.f;
#pragma unroll
            for (int j = 1; j < kWays; ++j)
                if (way >= j) sums[j] += p[i];
        }
        const float found = meet(memory, turn++, gather_sums(sums), add), mass = over + found;
        // one value left: it is the floor
        if (__shfl_sync(kAll, found, 0) <= 1.f) break;
        // from this part on it is enough, from the next one on it is not
        const int part = __popc(__ballot_sync(kAll, lane() / 2 > 0 && mass >= wanted)) / 2;
        const float above = __shfl_sync(kAll, mass, (2 * part + 2) % 32);
        if (part + 1 < kWays) over = above;
        low += part << shift;
    }
    const float floor = __int_as_float(low);
    sum = 0.f;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        p[i] = p[i] >= floor ? p[i] : 0.f;
        sum += p[i];
    }
    const float kept = meet(memory, turn, warp_sum(sum), add), goal = s.top_p > 0.f ? u * kept : 0.f;
    // all that was sent to this block has come: it may end
    const Place block = pick(lane() < kCluster ? memory.of_blocks[turn % 2][lane() % kCluster][0] : 0.f, 0.f, goal);
    if (block.lane != rank) return;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        const float run = warp_sum(p[i]);
        if (lane() == 0) memory.runs[i * kSampleWarps + warp()] = run;
    }
    __syncthreads();
    const auto run_at = [&](int at) { return at < kRuns ? memory.runs[at] : 0.f; };
    sum = 0.f;
    for (int i = 0; i < kRunsOfLane; ++i) sum += run_at(lane() * kRunsOfLane + i);
    const Place runs = pick(sum, block.before, goal);
    const int begin = runs.lane * kRunsOfLane;
    const Place run = pick(lane() < kRunsOfLane ? run_at(begin + lane()) : 0.f, runs.before, goal);
    const int at = begin + run.lane;
    if (at % kSampleWarps != warp()) return;
    const int word = 32 * at + lane();
    // p / p_max may have been too small for a logarithm
    const float z = __ldcg(logits + min(word, inside - 1));
    float mine = 0.f;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
        if (i * kSampleWarps + warp() == at) mine = p[i];
    if (pick(mine, run.before, goal).lane != lane()) return;
    s.tokens[place] = first + word;
    s.chosen[place] = (z - largest) * s.inverse_temperature - logf(whole);
}

// eight blocks a row
__global__ void __launch_bounds__(kSampleThreads, kWords <= 32 ? 2 : 1) sample_kernel(Sample s) {
// there are no clusters before
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    sample_row(s, *reinterpret_cast<SampleMemory*>(memory));
#endif
}

}  // namespace
