// One decoded token of a Llama through all layers and to its logits: five kernels a layer on tensor cores, for few rows.
//
//     qkv -> attention -> add (out) -> gate_up -> add (down),  then logits;  y = RMSNorm(x) W^T = ((x g) W^T) / sqrt(mean(x^2) + eps)
//
// Rows are the M of m16n8k16, eight outputs its N; the warps of a block share the inner dimension and add their sums at the end, in
// order. What a kernel waits for is latency, not bytes: its weights are in registers before it waits for the kernel before it
// (programmatic dependent launch), and 16 bytes of a row of W or x are one load: the inner dimension is walked in a permuted order,
// the same for both. Activations are read past the first-level cache, since other multiprocessors wrote them.
//
// WIDTH, HEADS, GROUPS (key heads), INNER are given to the compiler; a head has 64 features.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

// decode_cuda.Token, field by field
struct Token {
    float* x;
    bf16 *q, *attended, *inner;
    const bf16 *prompt_k, *prompt_v;
    bf16 *own_k, *own_v;
    const bf16 *qkv, *out, *gate_up, *down, *norm_attention, *norm_inner, *norm, *head;
    const float *cosines, *sines;
    const int64_t *lengths, *at;
    float* logits;
    int rows, prompts, replies, length, room, layers, vocabulary, overlap;
    float epsilon;
};


namespace {

constexpr int kHead = 64, kQueries = HEADS * kHead, kPerGroup = HEADS / GROUPS;
// features of the inner dimension that a step of a warp takes: two products of 16
constexpr int kBlock = 32;
constexpr int kRows = 16, kOutputs = 8;

// the fewest turns, then the fewest warps
constexpr int choose_warps(int blocks, int most) {
    int best = 1;
    for (int warps = 1; warps <= most; ++warps)
        if ((blocks + warps - 1) / warps < (blocks + best - 1) / best) best = warps;
    return best;
}

template <int K, int MOST>
struct Cut {
    static constexpr int blocks = K / kBlock;
    static constexpr int warps = choose_warps(blocks, MOST);
    static constexpr int turns = (blocks + warps - 1) / warps;
    static constexpr int threads = 32 * warps;
};

// sums of 48 KB of static shared memory
using OfWidth = Cut<WIDTH, 16>;
using PairOfWidth = Cut<WIDTH, 11>;

// let the next kernel start to load its weights; then wait until all before this one have ended
__device__ void follow() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ int lane() { return threadIdx.x % 32; }
__device__ int warp() { return threadIdx.x / 32; }

__device__ uint4 load(const bf16* from) { return __ldg(reinterpret_cast<const uint4*>(from)); }
__device__ uint4 load_fresh(const bf16* from) { return __ldcg(reinterpret_cast<const uint4*>(from)); }

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

__device__ void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 32 inner features: those that a lane holds of x's rows r and r + 8 against those of its row of W
__device__ void multiply_block(float (&c)[4], uint4 upper, uint4 lower, uint4 w) {
    multiply(c, upper.x, lower.x, upper.y, lower.y, w.x, w.y);
    multiply(c, upper.z, lower.z, upper.w, lower.w, w.z, w.w);
}

// of the inner dimension, where this lane begins in block `turn` of its warp
template <class C>
__device__ int begin_of(int turn) { return (warp() + turn * C::warps) * kBlock + (lane() % 4) * 8; }

template <class C>
__device__ bool has_block(int turn) { return C::blocks % C::warps == 0 || warp() + turn * C::warps < C::blocks; }

// the row of x that a lane holds in a tile; where there is none the last again, whose sums nobody reads
__device__ int row_of(int tile, int below, int rows) { return min(tile * kRows + lane() / 4 + below, rows - 1); }

// this lane's part of one row of a matrix, or of a vector
template <class C>
__device__ void load_row(uint4 (&w)[C::turns], const bf16* row) {
    for (int turn = 0; turn < C::turns; ++turn)
        w[turn] = has_block<C>(turn) ? load(row + begin_of<C>(turn)) : make_uint4(0, 0, 0, 0);
}

struct Eight {
    float4 first, second;
};

__device__ Eight load_eight(const float* x) {
    const float4* from = reinterpret_cast<const float4*>(x);
    return {__ldcg(from), __ldcg(from + 1)};
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

// sums of the warps of a block: M rows of N outputs, and of the squares of x
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
        if (lane() % 4 == 0) {
            square[warp()][tile * kRows + lane() / 4] = upper;
            square[warp()][tile * kRows + lane() / 4 + 8] = lower;
        }
    }
    __device__ float get(int row, int column) const {
        float sum = 0.f;
        for (int w = 0; w < C::warps; ++w) sum += part[w][row * N + column];
        return sum;
    }
    __device__ float scale(int row, float epsilon) const {
        float sum = 0.f;
        for (int w = 0; w < C::warps; ++w) sum += square[w][row];
        return rsqrtf(sum / (C::blocks * kBlock) + epsilon);
    }
};

// (x g) W^T of COUNT tiles of outputs, for TILES tiles of rows of float32 x
template <class C, int TILES, int COUNT, class S>
__device__ void multiply_normed(S& sums, const float* x, const uint4 (&gain)[C::turns], const uint4 (&w)[COUNT][C::turns], int rows) {
    constexpr int K = C::blocks * kBlock;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        float c[COUNT][4] = {}, upper_square = 0.f, lower_square = 0.f;
        Eight upper[C::turns], lower[C::turns];
        const float *upper_row = x + row_of(tile, 0, rows) * K, *lower_row = x + row_of(tile, 8, rows) * K;
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!has_block<C>(turn)) continue;
            upper[turn] = load_eight(upper_row + begin_of<C>(turn));
            lower[turn] = load_eight(lower_row + begin_of<C>(turn));
        }
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!has_block<C>(turn)) continue;
            const uint4 a = norm(upper[turn], gain[turn], upper_square), b = norm(lower[turn], gain[turn], lower_square);
            for (int i = 0; i < COUNT; ++i) multiply_block(c[i], a, b, w[i][turn]);
        }
        for (int i = 0; i < COUNT; ++i) sums.put(c[i], tile, i);
        sums.put_squares(upper_square, lower_square, tile);
    }
    __syncthreads();
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
    const int now = static_cast<int>(__ldcg(t.at)) - 1;
    for (int i = 0; i < each; ++i) {
        const int64_t angle = (lengths[i] + now) * (kHead / 2) + first + threadIdx.x % 4;
        cosines[i] = t.cosines[angle], sines[i] = t.sines[angle];
    }
    multiply_normed<OfWidth, TILES, 1>(sums, t.x, gain, w, t.rows);
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

constexpr int kAttentionWarps = 8, kAttentionThreads = 32 * kAttentionWarps;
// keys that a block sees at a time: eight lanes a key, eight keys a lane
constexpr int kAtOnce = 8, kStride = 4 * kAttentionWarps;

__host__ __device__ int attention_floats(int keys) {
    return kPerGroup * (keys + 1 + kAttentionWarps * kHead);
}

// one reply and key head a block: softmax(q K^T / 8) V over the prompt's keys, which its siblings read too, and its own
__global__ void __launch_bounds__(kAttentionThreads, 1) attention_kernel(Token t, int layer) {
    extern __shared__ float memory[];
    const int r = blockIdx.x / GROUPS, group = blockIdx.x % GROUPS, part = lane() % 8;
    const int64_t prompt = static_cast<int64_t>(layer) * t.prompts + r / t.replies, own = static_cast<int64_t>(layer) * t.rows + r;
    const int known = static_cast<int>(t.lengths[r / t.replies]);
    const int64_t from_prompt = (prompt * t.length * GROUPS + group) * kHead + part * 8;
    const int64_t from_own = (own * t.room * GROUPS + group) * kHead + part * 8;
    follow();
    const int keys = known + static_cast<int>(__ldcg(t.at));
    float* scores = memory;
    float* whole = scores + kPerGroup * keys;
    float* values = whole + kPerGroup;
    float q[kPerGroup][8];
    for (int m = 0; m < kPerGroup; ++m)
        unpack(q[m], load_fresh(t.q + r * kQueries + (group * kPerGroup + m) * kHead + part * 8));
    const auto see = [&](const bf16* of_prompt, const bf16* of_own, int key) {
        const bool is_known = key < known;
        return load_fresh((is_known ? of_prompt + from_prompt : of_own + from_own) +
                          static_cast<int64_t>(is_known ? key : key - known) * (GROUPS * kHead));
    };
    const int mine = threadIdx.x / 8;
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
            for (int m = 0; m < kPerGroup; ++m) {
                float sum = 0.f;
                for (int e = 0; e < 8; ++e) sum += q[m][e] * features[e];
                for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
                if (part == 0 && key < keys) scores[m * keys + key] = sum * 0.125f;
            }
        }
    }
    __syncthreads();
    // a warp a query head
    for (int m = warp(); m < kPerGroup; m += kAttentionWarps) {
        float largest = -INFINITY, sum = 0.f;
        for (int key = lane(); key < keys; key += 32) largest = fmaxf(largest, scores[m * keys + key]);
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        for (int key = lane(); key < keys; key += 32) {
            const float share = __expf(scores[m * keys + key] - largest);
            scores[m * keys + key] = share;
            sum += share;
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane() == 0) whole[m] = sum;
    }
    __syncthreads();
    float total[kPerGroup][8] = {};
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
            for (int m = 0; m < kPerGroup; ++m) {
                const float share = key < keys ? scores[m * keys + key] : 0.f;
                for (int e = 0; e < 8; ++e) total[m][e] += share * features[e];
            }
        }
    }
    for (int m = 0; m < kPerGroup; ++m)
        for (int e = 0; e < 8; ++e) {
            for (int step = 8; step < 32; step *= 2) total[m][e] += __shfl_xor_sync(0xffffffffu, total[m][e], step);
            if (lane() < 8) values[(warp() * kPerGroup + m) * kHead + part * 8 + e] = total[m][e];
        }
    __syncthreads();
    for (int i = threadIdx.x; i < kPerGroup * kHead; i += kAttentionThreads) {
        float sum = 0.f;
        for (int w = 0; w < kAttentionWarps; ++w) sum += values[w * kPerGroup * kHead + i];
        t.attended[r * kQueries + group * kPerGroup * kHead + i] = __float2bfloat16(sum / whole[i / kHead]);
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
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        float c[4] = {};
        uint4 upper[C::turns], lower[C::turns];
        const bf16 *upper_row = inner + row_of(tile, 0, rows) * K, *lower_row = inner + row_of(tile, 8, rows) * K;
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn) {
            if (!has_block<C>(turn)) continue;
            upper[turn] = load_fresh(upper_row + begin_of<C>(turn));
            lower[turn] = load_fresh(lower_row + begin_of<C>(turn));
        }
#pragma unroll
        for (int turn = 0; turn < C::turns; ++turn)
            if (has_block<C>(turn)) multiply_block(c, upper[turn], lower[turn], w[turn]);
        sums.put(c, tile, 0);
    }
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

// a warp eight words of the vocabulary at a time, over the whole width; x lies in shared memory
template <int TILES>
__global__ void __launch_bounds__(kLogitsThreads, 2) logits_kernel(Token t) {
    extern __shared__ float memory[];
    float* scales = memory;
    bf16* rows = reinterpret_cast<bf16*>(scales + TILES * kRows);
    const int words = (t.vocabulary + kOutputs - 1) / kOutputs, stride = gridDim.x * kLogitsWarps;
    uint4 w[kHeld];
    const auto load_word = [&](int word, int begin) {
        const int64_t row = min(word * kOutputs + lane() / 4, t.vocabulary - 1);
#pragma unroll
        for (int i = 0; i < kHeld; ++i)
            if (begin + i < OfWidth::blocks) w[i] = load(t.head + row * WIDTH + (begin + i) * kBlock + (lane() % 4) * 8);
    };
    int word = blockIdx.x * kLogitsWarps + warp();
    if (word < words) load_word(word, 0);
    follow();
    for (int r = warp(); r < TILES * kRows; r += kLogitsWarps) {
        float square = 0.f;
        for (int k = lane() * 8; k < WIDTH; k += 256)
            *reinterpret_cast<uint4*>(rows + r * kRowStride + k) =
                norm(load_eight(t.x + min(r, t.rows - 1) * WIDTH + k), load(t.norm + k), square);
        for (int step = 16; step > 0; step /= 2) square += __shfl_xor_sync(0xffffffffu, square, step);
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
                if (r < t.rows && n < t.vocabulary) t.logits[static_cast<int64_t>(r) * t.vocabulary + n] = c[tile][i] * scales[r];
            }
    }
}

struct Stream {
    cudaStream_t stream;
    bool overlap;
    cudaError_t error = cudaSuccess;

    template <class... P, class... A>
    void start(void (*kernel)(P...), int blocks, int threads, int bytes, A... arguments) {
        if (error != cudaSuccess) return;
        if (bytes > 48 * 1024) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks);
        config.blockDim = dim3(threads);
        config.dynamicSmemBytes = bytes;
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = overlap ? 1 : 0;
        if (error == cudaSuccess) error = cudaLaunchKernelEx(&config, kernel, P(arguments)...);
    }
};

template <int TILES>
cudaError_t run(const Token& t, Stream on, int multiprocessors) {
    const int keys = t.length + t.room;
    for (int layer = 0; layer < t.layers; ++layer) {
        on.start(qkv_kernel<TILES>, (HEADS + 2 * GROUPS) * kHead / kOutputs, OfWidth::threads, 0, t, layer);
        on.start(attention_kernel, t.rows * GROUPS, kAttentionThreads, 4 * attention_floats(keys), t, layer);
        on.start(add_kernel<TILES, kQueries>, WIDTH / kOutputs, Cut<kQueries, 16>::threads, 0, t.x, t.attended,
                 t.out + static_cast<int64_t>(layer) * WIDTH * kQueries, t.rows);
        on.start(gate_up_kernel<TILES>, INNER / kOutputs, PairOfWidth::threads, 0, t, layer);
        on.start(add_kernel<TILES, INNER>, WIDTH / kOutputs, Cut<INNER, 16>::threads, 0, t.x, t.inner,
                 t.down + static_cast<int64_t>(layer) * WIDTH * INNER, t.rows);
    }
    on.start(logits_kernel<TILES>, 2 * multiprocessors, kLogitsThreads, logits_bytes(TILES), t);
    return on.error;
}

}  // namespace

// 0, or the cudaError_t of the launch that failed; up to 64 rows
extern "C" int polychromic_layers(const Token* token, int multiprocessors, void* stream) {
    const Stream on = {static_cast<cudaStream_t>(stream), token->overlap != 0};
    switch ((token->rows + kRows - 1) / kRows) {
        case 1: return static_cast<int>(run<1>(*token, on, multiprocessors));
        case 2: return static_cast<int>(run<2>(*token, on, multiprocessors));
        case 3: return static_cast<int>(run<3>(*token, on, multiprocessors));
        case 4: return static_cast<int>(run<4>(*token, on, multiprocessors));
        default: return static_cast<int>(cudaErrorInvalidValue);
    }
}
