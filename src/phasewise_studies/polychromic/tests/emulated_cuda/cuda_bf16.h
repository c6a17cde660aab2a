#pragma once

#include <cuda_runtime.h>

struct __nv_bfloat16 { uint16_t bits; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };

inline float __bfloat162float(__nv_bfloat16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
// to the nearest, ties to even
inline __nv_bfloat16 __float2bfloat16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16(x), __float2bfloat16(y)}; }
