// Products of a few rows with a large matrix on tensor cores: y = x W^T for eight outputs a block.
//
// Rows are the M of m16n8k16, outputs its N. The warps of a block share the inner dimension and add their sums at the end, in
// order. 16 bytes of a row of W or x are one load: the inner dimension is walked in a permuted order, the same for both.

#pragma once

#include <cuda_bf16.h>
#include <decode_device.cuh>
#include <stdint.h>

namespace {

using bf16 = __nv_bfloat16;

// rows of a tile and outputs of a block; features of the inner dimension that a step of a warp takes: two products of 16
constexpr int kRows = 16, kOutputs = 8, kBlock = 32;

__device__ int lane() { return threadIdx.x % 32; }
__device__ int warp() { return threadIdx.x / 32; }

// what nobody writes while a kernel runs; and what other multiprocessors wrote just before, past the first-level cache
__device__ uint4 load(const bf16* from) { return __ldg(reinterpret_cast<const uint4*>(from)); }
__device__ uint4 load_fresh(const bf16* from) { return __ldcg(reinterpret_cast<const uint4*>(from)); }

__device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// the fewest turns, then the fewest warps
constexpr int choose_warps(int blocks, int most) {
    int best = 1;
    for (int warps = 1; warps <= most; ++warps)
        if ((blocks + warps - 1) / warps < (blocks + best - 1) / best) best = warps;
    return best;
}

// how the warps of a block share K inner features
template <int K, int MOST>
struct Cut {
    static constexpr int inner = K;
    static constexpr int blocks = K / kBlock;
    static constexpr int warps = choose_warps(blocks, MOST);
    static constexpr int turns = (blocks + warps - 1) / warps;
    static constexpr int threads = 32 * warps;

    static __device__ bool has_block(int turn) { return blocks % warps == 0 || warp() + turn * warps < blocks; }
    // where this lane begins
    static __device__ int begin(int turn) { return (warp() + turn * warps) * kBlock + (lane() % 4) * 8; }
};

// 32 inner features: what a lane holds of rows r and r + 8 of x against what it holds of one row of W
__device__ void multiply_block(float (&c)[4], uint4 upper, uint4 lower, uint4 w) {
    multiply(c, upper.x, lower.x, upper.y, lower.y, w.x, w.y);
    multiply(c, upper.z, lower.z, upper.w, lower.w, w.z, w.w);
}

// this lane's part of one row of W
template <class C>
__device__ void load_row(uint4 (&w)[C::turns], const bf16* row) {
    for (int turn = 0; turn < C::turns; ++turn)
        w[turn] = C::has_block(turn) ? load(row + C::begin(turn)) : make_uint4(0, 0, 0, 0);
}

// what each warp of a block found for M rows and N outputs
template <class C, int M, int N>
struct Sums {
    float part[C::warps][M * N];

    __device__ void put(const float (&c)[4], int tile, int output) {
        const int row = tile * kRows + lane() / 4, column = output * kOutputs + (lane() % 4) * 2;
        *reinterpret_cast<float2*>(&part[warp()][row * N + column]) = make_float2(c[0], c[1]);
        *reinterpret_cast<float2*>(&part[warp()][(row + 8) * N + column]) = make_float2(c[2], c[3]);
    }
    __device__ float get(int row, int column) const {
        float sum = 0.f;
        for (int w = 0; w < C::warps; ++w) sum += part[w][row * N + column];
        return sum;
    }
};

// x W^T of TILES tiles of rows for COUNT times eight outputs; the caller synchronises
template <class C, int TILES, int COUNT, class S>
__device__ void multiply_rows(S& sums, const bf16* x, const uint4 (&w)[COUNT][C::turns], int rows) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        // where there is no row the last one again: nobody reads those sums
        const int row = tile * kRows + lane() / 4;
        const bf16 *upper_row = x + min(row, rows - 1) * C::inner, *lower_row = x + min(row + 8, rows - 1) * C::inner;
        uint4 upper[C::turns], lower[C::turns];
        float c[COUNT][4] = {};
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!C::has_block(turn)) continue;
            upper[turn] = load_fresh(upper_row + C::begin(turn));
            lower[turn] = load_fresh(lower_row + C::begin(turn));
        }
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!C::has_block(turn)) continue;
            for (int i = 0; i < COUNT; ++i) multiply_block(c[i], upper[turn], lower[turn], w[i][turn]);
        }
        for (int i = 0; i < COUNT; ++i) sums.put(c[i], tile, i);
    }
}

}  // namespace
