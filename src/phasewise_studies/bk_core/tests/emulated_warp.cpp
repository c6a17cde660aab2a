// rows.cuh on a CPU: 32 threads are the lanes of one warp, which is a block of its own.
// usage: emulated_warp batch length energy eta causal sharp < a b c (float32) > out (float32 pairs)
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define DEVICE static
#define SEPARATE
#define LANE lane_of_thread

static thread_local int lane_of_thread;
static std::barrier<> meeting(32);
static float floats[32];
static unsigned words[32];

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) float2 { float x, y; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static float2 make_float2(float x, float y) { return {x, y}; }
static unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
static float __uint_as_float(unsigned u) { float x; std::memcpy(&x, &u, 4); return x; }

static void sync_warp() { meeting.arrive_and_wait(); }
static void sync_block() { meeting.arrive_and_wait(); }
static float shuffle(float value, int lane) {
    floats[LANE] = value;
    sync_warp();
    float found = floats[lane & 31];
    sync_warp();
    return found;
}
static unsigned warp_max(unsigned bits) {
    words[LANE] = bits;
    sync_warp();
    unsigned found = 0;
    for (unsigned word : words) found = word > found ? word : found;
    sync_warp();
    return found;
}
static float inverse(float x) { return 1.0f / x; }
static float logarithm(float x) { return std::log2(x); }
static void copy16(float* to, const float* from, bool inside) {
    if (inside) std::memcpy(to, from, 16); else std::memset(to, 0, 16);
}
static void copy4(float* to, const float* from, bool inside) { *to = inside ? *from : 0.0f; }
static void commit() {}
template <int N> static void wait_for_all_but() {}

#include "rows.cuh"

template <bool CAUSAL>
static void run(const Problem& q, float* memory) {
    float* k = memory + SLOTS * SLOT;
    float* inner = k + q.segments * SLOT;
    stage_couplings(q, k, inner, LANE, 32);
    if (q.length % 4 == 0) walk_rows<CAUSAL, true>(q, memory, k, inner, 0, 1);
    else walk_rows<CAUSAL, false>(q, memory, k, inner, 0, 1);
}

int main(int, char** words_given) {
    int batch = std::atoi(words_given[1]), length = std::atoi(words_given[2]);
    bool causal = std::atoi(words_given[5]), sharp = std::atoi(words_given[6]);
    int segments = (length + SEGMENT - 1) / SEGMENT;
    std::vector<float> a(batch * length), b(length), c(length), out(2 * batch * length, NAN), states(batch * segments * 64, NAN);
    for (auto [values, count] : {std::pair{&a, batch * length}, std::pair{&b, length - 1}, std::pair{&c, length - 1}}) {
        if (std::fread(values->data(), 4, count, stdin) != size_t(count)) return 1;
    }
    size_t floats_needed = SLOTS * SLOT + segments * (SLOT + 32);
    float* memory = static_cast<float*>(std::aligned_alloc(16, (floats_needed * 4 + 15) / 16 * 16));
    for (size_t i = 0; i < floats_needed; ++i) memory[i] = NAN;
    Problem q = {out.data(), a.data(), b.data(), c.data(), states.data(), float(std::atof(words_given[3])),
                 float(std::atof(words_given[4])), batch, length, segments, 1, 1, sharp};
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < 32; ++lane) {
        lanes.emplace_back([&, lane] {
            lane_of_thread = lane;
            causal ? run<true>(q, memory) : run<false>(q, memory);
        });
    }
    for (std::thread& lane : lanes) lane.join();
    std::fwrite(out.data(), 4, out.size(), stdout);
}
