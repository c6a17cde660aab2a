// Attention of one token: softmax(q K^T / 8) V over the prompt's keys, which all its replies read, and the reply's own.

#pragma once

#include "decode_product.cuh"

namespace {

constexpr int kHead = 64;
constexpr int kAttentionWarps = 8, kAttentionThreads = 32 * kAttentionWarps;
// keys that a block sees at a time: eight lanes a key, eight keys a lane
constexpr int kAtOnce = 8, kStride = 4 * kAttentionWarps;

struct Attention {
    bf16* attended;
    const bf16 *q, *prompt_k, *prompt_v, *own_k, *own_v;
    const int64_t *lengths, *at;
    int replies, length, room;
};

// floats of shared memory for so many keys and query heads a key head
__host__ __device__ constexpr int attention_floats(int keys, int heads) { return heads * (keys + 1 + kAttentionWarps * kHead); }

// one reply and key head a block
template <int HEADS_Q, int HEADS_K>
__global__ void __launch_bounds__(kAttentionThreads, 1) attention_kernel(Attention t) {
    constexpr int kPer = HEADS_Q / HEADS_K;
    const int r = blockIdx.x / HEADS_K, group = blockIdx.x % HEADS_K, part = lane() % 8, mine = threadIdx.x / 8;
    const int known = static_cast<int>(t.lengths[r / t.replies]);
    const int64_t from_prompt = (static_cast<int64_t>(r / t.replies) * t.length * HEADS_K + group) * kHead + part * 8;
    const int64_t from_own = (static_cast<int64_t>(r) * t.room * HEADS_K + group) * kHead + part * 8;
    follow();
    const int keys = known + static_cast<int>(__ldcg(t.at)) + 1;
    float* scores = memory;
    float* whole = scores + kPer * keys;
    float* values = whole + kPer;
    float q[kPer][8];
    for (int m = 0; m < kPer; ++m) unpack(q[m], load_fresh(t.q + (r * HEADS_Q + group * kPer + m) * kHead + part * 8));
    const auto see = [&](const bf16* prompt, const bf16* own, int key) {
        const bool is_known = key < known;
        return load_fresh((is_known ? prompt + from_prompt : own + from_own) +
                          static_cast<int64_t>(is_known ? key : key - known) * (HEADS_K * kHead));
    };
    uint4 v[kAtOnce];
    for (int first = 0; first < keys; first += kAtOnce * kStride) {
        uint4 k[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int key = min(first + i * kStride + mine, keys - 1);
            k[i] = see(t.prompt_k, t.own_k, key);
            // the first values arrive while the scores are summed
            if (first == 0) v[i] = see(t.prompt_v, t.own_v, key);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int key = first + i * kStride + mine;
            float features[8];
            unpack(features, k[i]);
            for (int m = 0; m < kPer; ++m) {
                float sum = 0.f;
                for (int e = 0; e < 8; ++e) sum += q[m][e] * features[e];
                for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
                if (part == 0 && key < keys) scores[m * keys + key] = sum * 0.125f;
            }
        }
    }
    __syncthreads();
    // a warp a query head
    for (int m = warp(); m < kPer; m += kAttentionWarps) {
        float largest = -INFINITY, sum = 0.f;
        for (int key = lane(); key < keys; key += 32) largest = fmaxf(largest, scores[m * keys + key]);
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        for (int key = lane(); key < keys; key += 32) {
            const float share = __expf(scores[m * keys + key] - largest);
            scores[m * keys + key] = share;
            sum += share;
        }
        sum = warp_sum(sum);
        if (lane() == 0) whole[m] = sum;
    }
    __syncthreads();
    float total[kPer][8] = {};
    for (int first = 0; first < keys; first += kAtOnce * kStride) {
        if (first > 0) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) v[i] = see(t.prompt_v, t.own_v, min(first + i * kStride + mine, keys - 1));
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int key = first + i * kStride + mine;
            float features[8];
            unpack(features, v[i]);
            for (int m = 0; m < kPer; ++m) {
                const float share = key < keys ? scores[m * keys + key] : 0.f;
                for (int e = 0; e < 8; ++e) total[m][e] += share * features[e];
            }
        }
    }
    for (int m = 0; m < kPer; ++m)
        for (int e = 0; e < 8; ++e) {
            for (int step = 8; step < 32; step *= 2) total[m][e] += __shfl_xor_sync(0xffffffffu, total[m][e], step);
            if (lane() < 8) values[(warp() * kPer + m) * kHead + part * 8 + e] = total[m][e];
        }
    __syncthreads();
    for (int i = threadIdx.x; i < kPer * kHead; i += kAttentionThreads) {
        float sum = 0.f;
        for (int w = 0; w < kAttentionWarps; ++w) sum += values[w * kPer * kHead + i];
        t.attended[(r * HEADS_Q + group * kPer) * kHead + i] = __float2bfloat16(sum / whole[i / kHead]);
    }
}

}  // namespace
