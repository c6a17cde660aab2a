#pragma once

#include <cuda_runtime.h>

// of this block
using emulated::memory;

inline void follow() {}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": which lane holds what
inline void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    struct Held { uint32_t a[4], b[2]; };
    const int lane = threadIdx.x % 32;
    float a[16][16], b[16][8];
    uint32_t words[6] = {a0, a1, a2, a3, b0, b1};
    for (int word = 0; word < 6; ++word) {
        const auto found = emulated::gather(words[word]);
        for (int of = 0; of < 32; ++of)
            for (int half = 0; half < 2; ++half) {
                const float value = __uint_as_float(half ? found[of] & 0xffff0000u : found[of] << 16);
                const int group = of / 4, k = of % 4 * 2 + half;
                if (word < 4) a[group + word % 2 * 8][k + word / 2 * 8] = value;
                else b[k + (word - 4) * 8][group] = value;
            }
    }
    for (int i = 0; i < 4; ++i) {
        float sum = 0.f;
        for (int k = 0; k < 16; ++k) sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
        c[i] += sum;
    }
}
