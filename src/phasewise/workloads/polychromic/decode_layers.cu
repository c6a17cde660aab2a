// One decoded token of a Llama, from the last token's embedding to the next token: five kernels a layer for few rows.
//
//     embed -> (qkv -> attention -> add (out) -> gate_up -> add (down)) x layers -> logits -> sample
//     RMSNorm(x) W^T = ((x g) W^T) / sqrt(mean(x^2) + eps)
//
// What a kernel waits for is latency, not bytes. Its weights are in registers before it waits for the kernel before it
// (programmatic dependent launch). Who writes x leaves x g in bfloat16 and the sums of the squares of eight features each beside it,
// so that who reads it has nothing to do but multiply.
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
    bf16* normed;
    float* squares;
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
// of a row of x
constexpr int kSquares = WIDTH / kOutputs;
using OfWidth = Cut<WIDTH, 16>;
// two outputs fill 48 KB of shared memory with the sums of eleven warps
using PairOfWidth = Cut<WIDTH, 11>;

// one feature of x, with what the next product reads of it; eight lanes hold eight neighbours
__device__ void leave(const Token& t, int r, int column, float x, float gain, bool inside) {
    float square = x * x;
    for (int step = 1; step < kOutputs; step *= 2) square += __shfl_xor_sync(0xffffffffu, square, step);
    if (!inside) return;
    t.x[r * WIDTH + column] = x;
    t.normed[r * WIDTH + column] = __float2bfloat16(x * gain);
    if (column % kOutputs == 0) t.squares[r * kSquares + column / kOutputs] = square;
}

// 1 / sqrt(mean(x^2) + eps) of all rows: asked for beside a product, summed after it
template <int WARPS, int TILES>
struct Scales {
    static constexpr int each = (TILES * kRows + WARPS - 1) / WARPS, pieces = (kSquares + 31) / 32;
    float part[each][pieces];

    __device__ void ask(const Token& t) {
        for (int i = 0; i < each; ++i)
            for (int piece = 0; piece < pieces; ++piece) {
                const int r = min(warp() + i * WARPS, t.rows - 1), at = lane() + 32 * piece;
                part[i][piece] = __ldcg(t.squares + r * kSquares + min(at, kSquares - 1));
                if (at >= kSquares) part[i][piece] = 0.f;
            }
    }
    __device__ void put(float* scales, float epsilon) const {
        for (int i = 0; i < each; ++i) {
            float sum = 0.f;
            for (int piece = 0; piece < pieces; ++piece) sum += part[i][piece];
            sum = warp_sum(sum);
            if (lane() == 0 && warp() + i * WARPS < TILES * kRows) scales[warp() + i * WARPS] = rsqrtf(sum / WIDTH + epsilon);
        }
    }
};

constexpr int kEmbedThreads = 256;

// x of the last token of a row each, and the counters of Triton's sampler back to 0
__global__ void __launch_bounds__(kEmbedThreads) embed_kernel(Token t) {
    follow();
    const int r = blockIdx.x;
    const int64_t token = t.tokens[r * t.room + __ldcg(t.at)];
    for (int column = threadIdx.x; column < (WIDTH + 31) / 32 * 32; column += kEmbedThreads) {
        const int inside = min(column, WIDTH - 1);
        leave(t, r, column, __bfloat162float(t.embedding[token * WIDTH + inside]), __bfloat162float(t.norm_attention[inside]),
              column < WIDTH);
    }
    if (threadIdx.x == 0) t.counters[r] = 0;
}

// four rotary pairs (i, i + 32) of one head a block: queries to q, keys and values of this token into the caches
template <int TILES>
__global__ void __launch_bounds__(OfWidth::threads, 1) qkv_kernel(Token t, int layer) {
    __shared__ Sums<OfWidth, TILES * kRows, kOutputs> sums;
    __shared__ float scales[TILES * kRows];
    constexpr int per_head = kHead / kOutputs, outputs = (HEADS + 2 * GROUPS) * kHead;
    const int head = blockIdx.x / per_head, first = blockIdx.x % per_head * 4, n = lane() / 4;
    const int64_t row = head * kHead + first + (n < 4 ? n : kHead / 2 + n - 4);
    uint4 w[1][OfWidth::turns];
    load_row<OfWidth>(w[0], t.qkv + (static_cast<int64_t>(layer) * outputs + row) * WIDTH);
    // rotary pairs that this thread writes in the end
    constexpr int count = TILES * kRows * 4, each = (count + OfWidth::threads - 1) / OfWidth::threads;
    int64_t lengths[each];
    float cosines[each], sines[each];
    for (int i = 0; i < each; ++i)
        lengths[i] = t.lengths[min((static_cast<int>(threadIdx.x) + i * OfWidth::threads) / 4, t.rows - 1) / t.replies];
    follow();
    Scales<OfWidth::warps, TILES> own;
    own.ask(t);
    const int now = static_cast<int>(__ldcg(t.at));
    for (int i = 0; i < each; ++i) {
        const int64_t angle = (lengths[i] + now) * (kHead / 2) + first + threadIdx.x % 4;
        cosines[i] = t.cosines[angle], sines[i] = t.sines[angle];
    }
    multiply_rows<OfWidth, TILES, 1>(sums, t.normed, w, t.rows);
    own.put(scales, t.epsilon);
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        const int r = (threadIdx.x + i * OfWidth::threads) / 4, pair = threadIdx.x % 4;
        if (r >= t.rows) continue;
        float low = scales[r] * sums.get(r, pair), high = scales[r] * sums.get(r, pair + 4);
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

// x += inner W^T for eight features a block; `gain` is that of the norm that follows
template <int TILES, int K>
__global__ void __launch_bounds__(Cut<K, 16>::threads, 1) add_kernel(Token t, const bf16* inner, const bf16* weights, const bf16* gain) {
    using C = Cut<K, 16>;
    __shared__ Sums<C, TILES * kRows, kOutputs> sums;
    const int first = blockIdx.x * kOutputs;
    uint4 w[1][C::turns];
    load_row<C>(w[0], weights + static_cast<int64_t>(first + lane() / 4) * K);
    const float g = __bfloat162float(gain[first + lane() % kOutputs]);
    follow();
    constexpr int count = TILES * kRows * kOutputs, each = (count + C::threads - 1) / C::threads;
    float before[each];
    const auto row_of = [&](int i) { return (static_cast<int>(threadIdx.x) + i * C::threads) / kOutputs; };
    for (int i = 0; i < each; ++i) before[i] = __ldcg(t.x + min(row_of(i), t.rows - 1) * WIDTH + first + lane() % kOutputs);
    multiply_rows<C, TILES, 1>(sums, inner, w, t.rows);
    __syncthreads();
    for (int i = 0; i < each; ++i) {
        const float change = sums.get(min(row_of(i), TILES * kRows - 1), lane() % kOutputs);
        leave(t, row_of(i), first + lane() % kOutputs, before[i] + change, g, row_of(i) < t.rows);
    }
}

// silu(gate) * up for eight features a block, silu(z) = z / (1 + e^-z)
template <int TILES>
__global__ void __launch_bounds__(PairOfWidth::threads, 2) gate_up_kernel(Token t, int layer) {
    using C = PairOfWidth;
    __shared__ Sums<C, TILES * kRows, 2 * kOutputs> sums;
    __shared__ float scales[TILES * kRows];
    const int64_t row = static_cast<int64_t>(layer) * 2 * INNER + blockIdx.x * kOutputs + lane() / 4;
    uint4 w[2][C::turns];
    load_row<C>(w[0], t.gate_up + row * WIDTH);
    load_row<C>(w[1], t.gate_up + (row + INNER) * WIDTH);
    follow();
    Scales<C::warps, TILES> own;
    own.ask(t);
    multiply_rows<C, TILES, 2>(sums, t.normed, w, t.rows);
    own.put(scales, t.epsilon);
    __syncthreads();
    for (int i = threadIdx.x; i < t.rows * kOutputs; i += C::threads) {
        const int r = i / kOutputs, column = i % kOutputs;
        const float gate = scales[r] * sums.get(r, column), up = scales[r] * sums.get(r, column + kOutputs);
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
    Scales<kLogitsWarps, TILES> own;
    own.ask(t);
    for (int i = threadIdx.x * 8; i < TILES * kRows * WIDTH; i += kLogitsThreads * 8) {
        const int r = i / WIDTH, k = i % WIDTH;
        *reinterpret_cast<uint4*>(rows + r * kRowStride + k) = load_fresh(t.normed + min(r, t.rows - 1) * WIDTH + k);
    }
    own.put(scales, t.epsilon);
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
        const bf16* following = layer + 1 < t.layers ? t.norm_attention + (layer + 1) * WIDTH : t.norm;
        on.start(qkv_kernel<TILES>, (HEADS + 2 * GROUPS) * kHead / kOutputs, OfWidth::threads, 0, t, layer);
        on.start(attention_kernel<HEADS, GROUPS>, t.rows * GROUPS, kAttentionThreads, bytes, attention);
        on.start(add_kernel<TILES, kQueries>, WIDTH / kOutputs, Cut<kQueries, 16>::threads, 0, t, t.attended,
                 t.out + layer * WIDTH * kQueries, t.norm_inner + layer * WIDTH);
        on.start(gate_up_kernel<TILES>, INNER / kOutputs, PairOfWidth::threads, 0, t, layer);
        on.start(add_kernel<TILES, INNER>, WIDTH / kOutputs, Cut<INNER, 16>::threads, 0, t, t.inner,
                 t.down + layer * WIDTH * INNER, following);
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
