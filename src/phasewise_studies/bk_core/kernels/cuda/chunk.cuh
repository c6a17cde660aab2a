// One chunk of 16 positions in a lane: its matrix, how well it forgets, and states that hop between the lanes of a warp.
// Formulas: ../moebius.py.
#pragma once

constexpr int CHUNK = 16;
constexpr int SEGMENT = 32 * CHUNK;
// a chunk takes 20 places, so that the 16-byte accesses of eight lanes meet 32 different banks
constexpr int PITCH = 20;
constexpr int SLOT = 32 * PITCH;
constexpr int SLOTS = 3;
constexpr int UNPROVEN = 32;
// the cure for couplings whose products would leave float32: they count as this in the bound, never in the result
constexpr float SMALLEST_COUPLING = 1.0f / 16384.0f;

struct Pair {
    float re, im;
};

struct Matrix {
    // p00 p01 p10 p11 of a chunk, and the number of chunks that forget a wrong state, the same for all lanes
    Pair p00, p01, p10, p11;
    int hops;
};

DEVICE inline int padded(int position) { return position / CHUNK * PITCH + position % CHUNK; }

DEVICE inline Pair pick(Pair value, int lane) { return {shuffle(value.re, lane), shuffle(value.im, lane)}; }

DEVICE inline Pair invert(float re, float im) {
    float q = inverse(re * re + im * im);
    return {re * q, -im * q};
}

// (n0 + n1 s)/(d0 + d1 s)
DEVICE inline Pair moebius(Pair n0, Pair n1, Pair d0, Pair d1, Pair s) {
    float n_re = fmaf(n1.re, s.re, fmaf(-n1.im, s.im, n0.re)), n_im = fmaf(n1.re, s.im, fmaf(n1.im, s.re, n0.im));
    float d_re = fmaf(d1.re, s.re, fmaf(-d1.im, s.im, d0.re)), d_im = fmaf(d1.re, s.im, fmaf(d1.im, s.re, d0.im));
    float q = inverse(fmaf(d_re, d_re, d_im * d_im));
    return {fmaf(n_re, d_re, n_im * d_im) * q, fmaf(n_im, d_re, -n_re * d_im) * q};
}

DEVICE inline Pair hop_right(const Matrix& m, Pair mu) { return moebius(m.p10, m.p11, m.p00, m.p01, mu); }

DEVICE inline Pair hop_left(const Matrix& m, Pair tau) {
    return moebius({-m.p01.re, -m.p01.im}, m.p11, m.p00, {-m.p10.re, -m.p10.im}, tau);
}

DEVICE inline Pair from_left(Pair value, Pair edge) {
    Pair moved = pick(value, LANE - 1 & 31);
    return LANE == 0 ? edge : moved;
}

DEVICE inline Pair from_right(Pair value, Pair edge) {
    Pair moved = pick(value, LANE + 1 & 31);
    return LANE == 31 ? edge : moved;
}

DEVICE inline void read16(float (&to)[CHUNK], const float* from) {
#pragma unroll
    for (int i = 0; i < CHUNK; i += 4) {
        float4 four = *reinterpret_cast<const float4*>(from + i);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
}

// One step of both recurrences of a product; imaginary parts are in units of eta.
DEVICE inline void advance(float x, float k, float eta2, float& new_re, float& new_im, float& old_re, float& old_im) {
    float re = fmaf(x, new_re, fmaf(eta2, new_im, -k * old_re));
    float im = fmaf(x, new_im, -fmaf(k, old_im, new_re));
    old_re = new_re, old_im = new_im, new_re = re, new_im = im;
}

// The matrix of this lane's chunk. `inner` is the product of the couplings inside it; infinite where one at it is below 0.
DEVICE inline Matrix multiply_chunk(const float* a, const float* k, float left, float inner, float energy, float eta) {
    float x[CHUNK], ks[CHUNK];
    read16(x, a);
    read16(ks, k);
    float eta2 = eta * eta;
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) x[i] -= energy;
    float a_re = fmaf(x[0], x[1], -(eta2 + ks[0])), a_im = -(x[0] + x[1]);
    float b_re = x[1], b_im = -1.0f, c_re = x[0], c_im = -1.0f, d_re = 1.0f, d_im = 0.0f;
    float kappa = inner;
#pragma unroll
    for (int i = 2; i < CHUNK; ++i) {
        advance(x[i], ks[i - 1], eta2, a_re, a_im, c_re, c_im);
        advance(x[i], ks[i - 1], eta2, b_re, b_im, d_re, d_im);
        // eight factors stay inside float32 up to |alpha| = 5e4
        if (i == 7 || i == CHUNK - 1) {
            unsigned bits = __float_as_uint(fmaxf(fabsf(a_re), fabsf(a_im * eta)));
            float scale = __uint_as_float(0x7F000000u - (bits & 0x7F800000u));
            a_re *= scale, a_im *= scale, b_re *= scale, b_im *= scale;
            c_re *= scale, c_im *= scale, d_re *= scale, d_im *= scale;
            kappa *= scale * scale;
        }
    }
    a_im *= eta, b_im *= eta, c_im *= eta, d_im *= eta;
    float size = fabsf(eta);
    float right = fmaxf(fabsf(a_re * b_im - a_im * b_re), size * (b_re * b_re + b_im * b_im));
    float before = fmaxf(fabsf(a_re * c_im - a_im * c_re), size * (c_re * c_re + c_im * c_im));
    kappa *= inverse(size);
    float survives = kappa * fmaxf(ks[CHUNK - 1] * inverse(right), left * inverse(before));
    // NaN is above infinity as an integer; fmaxf would drop it, and so it would a product that is not finite
    bool finite = right + before + kappa < INFINITY;
    float worst = __uint_as_float(warp_max(__float_as_uint(finite ? fabsf(survives) : INFINITY)));
    int hops = worst < 0.5f ? int(-25.0f * inverse(logarithm(fmaxf(worst, 1e-30f)))) + 1 : UNPROVEN;
    return {{a_re, a_im}, {-left * b_re, -left * b_im}, {c_re, c_im}, {-left * d_re, -left * d_im}, hops};
}

// mu and, unless CAUSAL, tau as they enter each chunk, from what enters the first and the last one.
template <bool CAUSAL>
DEVICE inline void spread(const Matrix& m, int hops, Pair mu_in, Pair tau_in, Pair& mu, Pair& tau) {
    mu = LANE == 0 ? mu_in : Pair{0.0f, 0.0f};
    tau = LANE == 31 ? tau_in : Pair{0.0f, 0.0f};
    for (int hop = 0; hop < hops; ++hop) {
        mu = from_left(hop_right(m, mu), mu_in);
        if (!CAUSAL) tau = from_right(hop_left(m, tau), tau_in);
    }
}

// What enters a segment from the right: what leaves the first chunk of the next one, whose far end is taken for closed.
DEVICE inline Pair look_ahead(const Matrix& next) {
    Pair tau = {0.0f, 0.0f};
    int hops = next.hops < 32 ? next.hops : 32;
    for (int hop = 1; hop < hops; ++hop) tau = from_right(hop_left(next, tau), {0.0f, 0.0f});
    return pick(hop_left(next, tau), 0);
}
