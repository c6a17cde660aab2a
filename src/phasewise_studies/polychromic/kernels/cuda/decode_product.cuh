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

struct Eight {
    float4 first, second;
};

__device__ Eight load_eight(const float* x) {
    const float4* from = reinterpret_cast<const float4*>(x);
    return {__ldcg(from), __ldcg(from + 1)};
}

__device__ void unpack(float (&to)[8], uint4 from) {
    const uint32_t words[4] = {from.x, from.y, from.z, from.w};
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}

__device__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
}

// eight features of x g in bfloat16; the squares of x are added
__device__ uint4 norm(const Eight& x, uint4 gain, float& square) {
    float g[8];
    unpack(g, gain);
    const float v[8] = {x.first.x, x.first.y, x.first.z, x.first.w, x.second.x, x.second.y, x.second.z, x.second.w};
    for (int i = 0; i < 8; ++i) square += v[i] * v[i];
    return make_uint4(pack(v[0] * g[0], v[1] * g[1]), pack(v[2] * g[2], v[3] * g[3]), pack(v[4] * g[4], v[5] * g[5]),
                      pack(v[6] * g[6], v[7] * g[7]));
}

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

// what each warp of a block found for M rows and N outputs, and of the squares of x
template <class C, int M, int N>
struct Sums {
    float part[C::warps][M * N];
    float square[C::warps][M];

    __device__ void put(const float (&c)[4], int tile, int output) {
        const int row = tile * kRows + lane() / 4, column = output * kOutputs + (lane() % 4) * 2;
        *reinterpret_cast<float2*>(&part[warp()][row * N + column]) = make_float2(c[0], c[1]);
        *reinterpret_cast<float2*>(&part[warp()][(row + 8) * N + column]) = make_float2(c[2], c[3]);
    }
    __device__ void put_squares(float upper, float lower, int tile) {
        for (int step = 1; step < 4; step *= 2) {
            upper += __shfl_xor_sync(0xffffffffu, upper, step);
            lower += __shfl_xor_sync(0xffffffffu, lower, step);
        }
        if (lane() % 4 > 0) return;
        square[warp()][tile * kRows + lane() / 4] = upper;
        square[warp()][tile * kRows + lane() / 4 + 8] = lower;
    }
    __device__ float get(int row, int column) const {
        float sum = 0.f;
        for (int w = 0; w < C::warps; ++w) sum += part[w][row * N + column];
        return sum;
    }
    // 1 / sqrt(mean(x^2) + eps)
    __device__ float scale(int row, float epsilon) const {
        float sum = 0.f;
        for (int w = 0; w < C::warps; ++w) sum += square[w][row];
        return rsqrtf(sum / C::inner + epsilon);
    }
};

// the row of x that a lane holds in a tile; where there is none the last again: nobody reads those sums
__device__ int row_of(int tile, int below, int rows) { return min(tile * kRows + lane() / 4 + below, rows - 1); }

// x W^T of TILES tiles of rows for eight outputs; the caller synchronises
template <class C, int TILES, class S>
__device__ void multiply_rows(S& sums, const bf16* x, const uint4 (&w)[C::turns], int rows) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        const bf16 *upper_row = x + row_of(tile, 0, rows) * C::inner, *lower_row = x + row_of(tile, 8, rows) * C::inner;
        uint4 upper[C::turns], lower[C::turns];
        float c[4] = {};
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!C::has_block(turn)) continue;
            upper[turn] = load_fresh(upper_row + C::begin(turn));
            lower[turn] = load_fresh(lower_row + C::begin(turn));
        }
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn)
            if (C::has_block(turn)) multiply_block(c, upper[turn], lower[turn], w[turn]);
        sums.put(c, tile, 0);
    }
}

// (x g) W^T for COUNT times eight outputs, and the squares of x, which is float32; the caller synchronises
template <class C, int TILES, int COUNT, class S>
__device__ void multiply_normed(S& sums, const float* x, const uint4 (&gain)[C::turns], const uint4 (&w)[COUNT][C::turns], int rows) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        const float *upper_row = x + row_of(tile, 0, rows) * C::inner, *lower_row = x + row_of(tile, 8, rows) * C::inner;
        Eight upper[C::turns], lower[C::turns];
        float c[COUNT][4] = {}, upper_square = 0.f, lower_square = 0.f;
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!C::has_block(turn)) continue;
            upper[turn] = load_eight(upper_row + C::begin(turn));
            lower[turn] = load_eight(lower_row + C::begin(turn));
        }
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!C::has_block(turn)) continue;
            const uint4 a = norm(upper[turn], gain[turn], upper_square), b = norm(lower[turn], gain[turn], lower_square);
            for (int i = 0; i < COUNT; ++i) multiply_block(c[i], a, b, w[i][turn]);
        }
        for (int i = 0; i < COUNT; ++i) sums.put(c[i], tile, i);
        sums.put_squares(upper_square, lower_square, tile);
    }
}

}  // namespace
