// One decoded token of a Llama, from the last token's embedding to the next token: five kernels a layer for few rows.
//
//     embed -> (qkv -> attention -> add (out) -> gate_up -> add (down)) x layers -> logits -> sample
//     RMSNorm(x) W^T = ((x g) W^T) / sqrt(mean(x^2) + eps)
//
// What a kernel waits for is latency, not bytes: its weights are in registers before it waits for the kernel before it
// (programmatic dependent launch), and who reads x sums its squares beside the product.
//
// WIDTH, HEADS, GROUPS (key heads), INNER, VOCABULARY are given to the compiler; a head has 64 features.

#include <cuda_runtime.h>

#include "decode_attention.cuh"
#include "decode_launch.cuh"
#include "decode_product.cuh"
#include "decode_sample.cuh"

// decode_cuda.Token, field by field
struct Token {
    float* x;
    bf16 *q, *attended, *inner;
    const bf16 *prompt_k, *prompt_v;
    bf16 *own_k, *own_v;
    const bf16 *qkv, *out, *gate_up, *down, *norm_attention, *norm_inner, *norm, *embedding, *head;
    const float *cosines, *sines;
    const int64_t* lengths;
    int64_t *tokens, *at;
    int* counters;
    float* logits;
    const float* uniforms;
    float* chosen;
    int rows, prompts, replies, length, room, layers, overlap, samples;
    float epsilon, inverse_temperature, top_p;
};

namespace {

constexpr int kQueries = HEADS * kHead;
using OfWidth = Cut<WIDTH, 16>;
// two outputs fill 48 KB of shared memory with the sums of eleven warps
using PairOfWidth = Cut<WIDTH, 11>;

constexpr int kEmbedThreads = 256;

// x of the last token of a row each, and the counters of Triton's sampler back to 0
__global__ void __launch_bounds__(kEmbedThreads) embed_kernel(Token t) {
    follow();
    const int r = blockIdx.x;
    const int64_t token = t.tokens[r * t.room + __ldcg(t.at)];
    for (int column = threadIdx.x; column < WIDTH; column += kEmbedThreads)
        t.x[r * WIDTH + column] = __bfloat162float(t.embedding[token * WIDTH + column]);
    if (threadIdx.x == 0) t.counters[r] = 0;
}

// four rotary pairs (i, i + 32) of one head a block: queries to q, keys and values of this token into the caches
template <int TILES>
__global__ void __launch_bounds__(OfWidth::threads, 1) qkv_kernel(Token t, int layer) {
    __shared__ Sums<OfWidth, TILES * kRows, kOutputs> sums;
    constexpr int per_head = kHead / kOutputs, outputs = (HEADS + 2 * GROUPS) * kHead;
    const int head = blockIdx.x / per_head, first = blockIdx.x % per_head * 4, n = lane() / 4;
    const int64_t row = head * kHead + first + (n < 4 ? n : kHead / 2 + n - 4);
    uint4 w[1][OfWidth::turns], gain[OfWidth::turns];
    load_row<OfWidth>(w[0], t.qkv + (static_cast<int64_t>(layer) * outputs + row) * WIDTH);
    load_row<OfWidth>(gain, t.norm_attention + layer * WIDTH);
    // rotary pairs that this thread writes in the end
    constexpr int count = TILES * kRows * 4, each = (count + OfWidth::threads - 1) / OfWidth::threads;
    int64_t lengths[each];
    float cosines[each], sines[each];
    for (int i = 0; i < each; ++i)
        lengths[i] = t.lengths[min((static_cast<int>(threadIdx.x) + i * OfWidth::threads) / 4, t.rows - 1) / t.replies];
    follow();
    const int now = static_cast<int>(__ldcg(t.at));
    for (int i = 0; i < each; ++i) {
        const int64_t angle = (lengths[i] + now) * (kHead / 2) + first + threadIdx.x % 4;
        cosines[i] = t.cosines[angle], sines[i] = t.sines[angle];
    }
    multiply_normed<OfWidth, TILES, 1>(sums, t.x, gain, w, t.rows);
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        const int r = (threadIdx.x + i * OfWidth::threads) / 4, pair = threadIdx.x % 4;
        if (r >= t.rows) continue;
        const float scale = sums.scale(r, t.epsilon);
        float low = scale * sums.get(r, pair), high = scale * sums.get(r, pair + 4);
        // values are not turned
        if (head < HEADS + GROUPS) {
            const float turned = low * cosines[i] - high * sines[i];
            high = high * cosines[i] + low * sines[i];
            low = turned;
        }
        bf16* into = t.q + r * kQueries + head * kHead;
        if (head >= HEADS) {
            const bool is_key = head < HEADS + GROUPS;
            const int group = head - HEADS - (is_key ? 0 : GROUPS);
            const int64_t place = ((static_cast<int64_t>(layer) * t.rows + r) * t.room + now) * GROUPS + group;
            into = (is_key ? t.own_k : t.own_v) + place * kHead;
        }
        into[first + pair] = __float2bfloat16(low);
        into[first + pair + kHead / 2] = __float2bfloat16(high);
    }
}

// x += inner W^T for eight features a block
template <int TILES, int K>
__global__ void __launch_bounds__(Cut<K, 16>::threads, 1) add_kernel(float* x, const bf16* inner, const bf16* weights, int rows) {
    using C = Cut<K, 16>;
    __shared__ Sums<C, TILES * kRows, kOutputs> sums;
    uint4 w[C::turns];
    load_row<C>(w, weights + (static_cast<int64_t>(blockIdx.x) * kOutputs + lane() / 4) * K);
    follow();
    constexpr int count = TILES * kRows * kOutputs, each = (count + C::threads - 1) / C::threads;
    float before[each];
    const auto place = [&](int i) { return x + min(i / kOutputs, rows - 1) * WIDTH + blockIdx.x * kOutputs + i % kOutputs; };
    for (int i = 0; i < each; ++i) before[i] = __ldcg(place(threadIdx.x + i * C::threads));
    multiply_rows<C, TILES>(sums, inner, w, rows);
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        const int index = threadIdx.x + i * C::threads;
        if (index < rows * kOutputs) *place(index) = before[i] + sums.get(index / kOutputs, index % kOutputs);
    }
}

// silu(gate) * up for eight features a block, silu(z) = z / (1 + e^-z)
template <int TILES>
__global__ void __launch_bounds__(PairOfWidth::threads, 2) gate_up_kernel(Token t, int layer) {
    using C = PairOfWidth;
    __shared__ Sums<C, TILES * kRows, 2 * kOutputs> sums;
    const int64_t row = static_cast<int64_t>(layer) * 2 * INNER + blockIdx.x * kOutputs + lane() / 4;
    uint4 w[2][C::turns], gain[C::turns];
    load_row<C>(w[0], t.gate_up + row * WIDTH);
    load_row<C>(w[1], t.gate_up + (row + INNER) * WIDTH);
    load_row<C>(gain, t.norm_inner + layer * WIDTH);
    follow();
    multiply_normed<C, TILES, 2>(sums, t.x, gain, w, t.rows);
    __syncthreads();
    for (int i = threadIdx.x; i < TILES * kRows * kOutputs; i += C::threads) {
        const int r = i / kOutputs, column = i % kOutputs;
        if (r >= t.rows) continue;
        const float scale = sums.scale(r, t.epsilon);
        const float gate = scale * sums.get(r, column), up = scale * sums.get(r, column + kOutputs);
        t.inner[r * INNER + blockIdx.x * kOutputs + column] = __float2bfloat16(gate / (1.f + __expf(-gate)) * up);
    }
}

constexpr int kLogitsWarps = 8, kLogitsThreads = 32 * kLogitsWarps;
// between rows in shared memory, so that eight of them lie in different banks
constexpr int kRowStride = WIDTH + 8;
// blocks of a row of the head that a lane holds at a time
constexpr int kHeld = OfWidth::blocks <= 20 ? OfWidth::blocks : 16;

__host__ __device__ constexpr int logits_bytes(int tiles) { return tiles * kRows * (kRowStride * 2 + 4); }

// a warp eight words of the vocabulary at a time, over the whole width; x lies in shared memory. The token that follows is the next
template <int TILES>
__global__ void __launch_bounds__(kLogitsThreads, 2) logits_kernel(Token t) {
    float* scales = memory;
    bf16* rows = reinterpret_cast<bf16*>(scales + TILES * kRows);
    const int words = (VOCABULARY + kOutputs - 1) / kOutputs, stride = gridDim.x * kLogitsWarps;
    uint4 w[kHeld];
    const auto load_word = [&](int word, int begin) {
        const int64_t row = min(word * kOutputs + lane() / 4, VOCABULARY - 1);
#pragma unroll
        for (int i = 0; i < kHeld; ++i)
            if (begin + i < OfWidth::blocks) w[i] = load(t.head + row * WIDTH + (begin + i) * kBlock + (lane() % 4) * 8);
    };
    int word = blockIdx.x * kLogitsWarps + warp();
    if (word < words) load_word(word, 0);
    follow();
    if (blockIdx.x == 0 && threadIdx.x == 0) *t.at = __ldcg(t.at) + 1;
    for (int r = warp(); r < TILES * kRows; r += kLogitsWarps) {
        float square = 0.f;
        for (int k = lane() * 8; k < WIDTH; k += 256)
            *reinterpret_cast<uint4*>(rows + r * kRowStride + k) =
                norm(load_eight(t.x + min(r, t.rows - 1) * WIDTH + k), load(t.norm + k), square);
        square = warp_sum(square);
        if (lane() == 0) scales[r] = rsqrtf(square / WIDTH + t.epsilon);
    }
    __syncthreads();
    for (bool is_first = true; word < words; word += stride, is_first = false) {
        float c[TILES][4] = {};
        for (int begin = 0; begin < OfWidth::blocks; begin += kHeld) {
            if (!is_first || begin > 0) load_word(word, begin);
#pragma unroll
            for (int i = 0; i < kHeld; ++i) {
                if (begin + i >= OfWidth::blocks) continue;
                const bf16* at = rows + lane() / 4 * kRowStride + (begin + i) * kBlock + (lane() % 4) * 8;
                for (int tile = 0; tile < TILES; ++tile) {
                    const uint4 upper = *reinterpret_cast<const uint4*>(at + tile * kRows * kRowStride);
                    const uint4 lower = *reinterpret_cast<const uint4*>(at + (tile * kRows + 8) * kRowStride);
                    multiply_block(c[tile], upper, lower, w[i]);
                }
            }
        }
        for (int tile = 0; tile < TILES; ++tile)
            for (int i = 0; i < 4; ++i) {
                const int r = tile * kRows + lane() / 4 + i / 2 * 8, n = word * kOutputs + (lane() % 4) * 2 + i % 2;
                if (r < t.rows && n < VOCABULARY) t.logits[static_cast<int64_t>(r) * VOCABULARY + n] = c[tile][i] * scales[r];
            }
    }
}

template <int TILES>
cudaError_t run(const Token& t, Stream on, int multiprocessors) {
    const int bytes = 4 * attention_floats(t.length + t.room, HEADS / GROUPS);
    on.start(embed_kernel, t.rows, kEmbedThreads, 0, t);
    for (int64_t layer = 0; layer < t.layers; ++layer) {
        const int64_t of_prompt = layer * t.prompts * t.length * GROUPS * kHead, of_own = layer * t.rows * t.room * GROUPS * kHead;
        const Attention attention = {t.attended, t.q, t.prompt_k + of_prompt, t.prompt_v + of_prompt, t.own_k + of_own,
                                     t.own_v + of_own, t.lengths, t.at, t.replies, t.length, t.room};
        on.start(qkv_kernel<TILES>, (HEADS + 2 * GROUPS) * kHead / kOutputs, OfWidth::threads, 0, t, layer);
        on.start(attention_kernel<HEADS, GROUPS>, t.rows * GROUPS, kAttentionThreads, bytes, attention);
        on.start(add_kernel<TILES, kQueries>, WIDTH / kOutputs, Cut<kQueries, 16>::threads, 0, t.x, t.attended,
                 t.out + layer * WIDTH * kQueries, t.rows);
        on.start(gate_up_kernel<TILES>, INNER / kOutputs, PairOfWidth::threads, 0, t, layer);
        on.start(add_kernel<TILES, INNER>, WIDTH / kOutputs, Cut<INNER, 16>::threads, 0, t.x, t.inner,
                 t.down + layer * WIDTH * INNER, t.rows);
    }
    on.start(logits_kernel<TILES>, 2 * multiprocessors, kLogitsThreads, logits_bytes(TILES), t);
    if (t.samples) {
        const Sample sample = {t.logits, t.uniforms, t.tokens, t.chosen, t.at, t.room, t.inverse_temperature, t.top_p};
        on.start<kCluster>(sample_kernel, t.rows * kCluster, kSampleThreads, sizeof(SampleMemory), sample);
    }
    return on.error;
}

}  // namespace

// 0, or the cudaError_t of the launch that failed; up to 64 rows
extern "C" int polychromic_token(const Token* token, int multiprocessors, void* stream) {
    const Stream on = {static_cast<cudaStream_t>(stream), token->overlap != 0};
    switch ((token->rows + kRows - 1) / kRows) {
        case 1: return static_cast<int>(run<1>(*token, on, multiprocessors));
        case 2: return static_cast<int>(run<2>(*token, on, multiprocessors));
        case 3: return static_cast<int>(run<3>(*token, on, multiprocessors));
        case 4: return static_cast<int>(run<4>(*token, on, multiprocessors));
        default: return static_cast<int>(cudaErrorInvalidValue);
    }
}

// the sampler by itself: logits (rows, VOCABULARY), column `at` of uniforms, tokens and chosen (rows, room)
extern "C" int polychromic_sample(const float* logits, const float* uniforms, int64_t* tokens, float* chosen, const int64_t* at,
                                  int rows, int room, float inverse_temperature, float top_p, void* stream) {
    Stream on = {static_cast<cudaStream_t>(stream), false};
    on.start<kCluster>(sample_kernel, rows * kCluster, kSampleThreads, sizeof(SampleMemory),
                       Sample{logits, uniforms, tokens, chosen, at, room, inverse_temperature, top_p});
    return static_cast<int>(on.error);
}
