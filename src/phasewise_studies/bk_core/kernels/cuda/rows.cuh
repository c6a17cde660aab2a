// The diagonal of (H - z)^-1 for rows of shared couplings: one warp walks along one row after another.
//
// A segment is 512 positions, 16 for each lane (a chunk). Segments arrive two ahead in shared memory, and the matrix of the
// next one is multiplied while its data is not needed yet: what lies beyond a segment's right end is seen through it.
// Per segment: hops carry the states between lanes (shuffles), then elimination from the left, m = 1/d, and substitution
// from the right, G_i = m_i + k_i m_i^2 G_{i+1}: one reciprocal an element. Formulas: ../moebius.py and ../forward.py.
//
// Whoever includes this defines: LANE, shuffle(value, lane), sync_warp(), sync_block(), warp_max(bits), inverse(x), logarithm(x),
// copy16/copy4(to, from, inside), commit(), wait_for_all_but<n>().
#pragma once

#include "chunk.cuh"

struct Problem {
    float* out;
    const float* a;
    const float* b;
    const float* c;
    float* states;
    float energy, eta;
    int batch, length, segments;
    long long stride_b, stride_c;
    bool sharp;
};

// Where this lane's share of an access of all lanes begins in a slot: 16 bytes of a quarter of chunk LANE / 4.
DEVICE inline int home() { return LANE / 4 * PITCH + LANE % 4 * 4; }

// ALIGNED: the length is a multiple of 4, so that rows begin at multiples of 16 bytes.
template <bool ALIGNED>
DEVICE inline void load_segment(const Problem& q, float* slot, int row, int segment) {
    int left = q.length - segment * SEGMENT;
    const float* from = q.a + ((long long)row * q.length + segment * SEGMENT);
    if (ALIGNED) {
        from += LANE * 4, slot += home();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            bool inside = j * 128 + LANE * 4 < left;
            copy16(slot + j * 8 * PITCH, inside ? from + j * 128 : q.a, inside);
        }
    } else {
        for (int j = 0; j < 16; ++j) {
            bool inside = j * 32 + LANE < left;
            copy4(slot + padded(j * 32 + LANE), inside ? from + j * 32 + LANE : q.a, inside);
        }
    }
}

// Eight positions of each chunk, from shared memory to their places in the row.
template <bool ALIGNED>
DEVICE inline void store_half(const Problem& q, const float* slot, int row, int segment, int half) {
    int position = LANE / 4 * CHUNK + half * 8 + LANE % 4 * 2, left = q.length - segment * SEGMENT - position;
    float* to = q.out + 2 * ((long long)row * q.length + segment * SEGMENT + position);
    slot += home();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float4 two = *reinterpret_cast<const float4*>(slot + j * 8 * PITCH);
        float* here = to + j * 8 * CHUNK * 2;
        if (ALIGNED) {
            if (j * 8 * CHUNK < left) *reinterpret_cast<float4*>(here) = two;
        } else {
            if (j * 8 * CHUNK < left) *reinterpret_cast<float2*>(here) = make_float2(two.x, two.y);
            if (j * 8 * CHUNK + 1 < left) *reinterpret_cast<float2*>(here + 2) = make_float2(two.z, two.w);
        }
    }
}

// Elimination and substitution in one chunk; a's slot is reused for the results. Returns m at the chunk's end.
template <bool CAUSAL, bool ALIGNED>
DEVICE inline Pair replay(const Problem& q, float* slot, const float* k, float left, Pair mu, Pair tau, int row, int segment) {
    float* mine = slot + LANE * PITCH;
    const float* my_k = k + LANE * PITCH;
    float m_re[CHUNK], m_im[CHUNK];
    Pair before = mu;
    float coupling = left;
#pragma unroll
    for (int i = 0; i < CHUNK; i += 4) {
        float4 x = *reinterpret_cast<const float4*>(mine + i), four = *reinterpret_cast<const float4*>(my_k + i);
        float xs[4] = {x.x, x.y, x.z, x.w}, ks[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float d_re = fmaf(-coupling, before.re, xs[j] - q.energy), d_im = fmaf(-coupling, before.im, -q.eta);
            before = invert(d_re, d_im);
            coupling = ks[j];
            m_re[i + j] = before.re, m_im[i + j] = before.im;
        }
    }
    Pair last = {m_re[CHUNK - 1], m_im[CHUNK - 1]};
    Pair g = last;
    if (!CAUSAL) {
        // 1/(d - tau) by the m = 1/d at hand: m/(1 - m tau)
        float re = 1.0f - (last.re * tau.re - last.im * tau.im), im = -(last.re * tau.im + last.im * tau.re);
        Pair inverted = invert(re, im);
        g = {last.re * inverted.re - last.im * inverted.im, last.re * inverted.im + last.im * inverted.re};
    }
    sync_warp();
#pragma unroll
    for (int half = 1; half >= 0; --half) {
#pragma unroll
        for (int i = half * 8 + 7; i >= half * 8; --i) {
            if (CAUSAL) {
                g = {m_re[i], m_im[i]};
            } else if (i + 1 < CHUNK) {
                float ki = my_k[i];
                float u = ki * m_re[i], v = ki * m_im[i];
                float f_re = fmaf(u, m_re[i], -v * m_im[i]), f_im = 2.0f * (u * m_im[i]);
                g = {fmaf(f_re, g.re, fmaf(-f_im, g.im, m_re[i])), fmaf(f_re, g.im, fmaf(f_im, g.re, m_im[i]))};
            }
            m_re[i] = g.re, m_im[i] = g.im;
            if (i % 2 == 0) {
                *reinterpret_cast<float4*>(mine + (i - half * 8) * 2) =
                    make_float4(m_re[i], m_im[i], m_re[i + 1], m_im[i + 1]);
            }
        }
        sync_warp();
        store_half<ALIGNED>(q, slot, row, segment, half);
        sync_warp();
    }
    return last;
}

DEVICE inline float left_of(const float* k, int chunk) { return chunk ? k[chunk * PITCH - PITCH + CHUNK - 1] : 0.0f; }

// Without any bound, in the ratio form: tau of each lane from the right end to `states`, then the row from the left.
template <bool CAUSAL, bool ALIGNED>
DEVICE SEPARATE void redo_row(const Problem q, float* slot, const float* k, const float* inner, int row) {
    float* states = q.states + (long long)row * q.segments * 64 + LANE;
    float* mine = slot + LANE * PITCH;
    Pair tau_in = {0.0f, 0.0f}, mu_in = {0.0f, 0.0f}, mu, tau;
    for (int s = CAUSAL ? -1 : q.segments - 1; s >= 0; --s) {
        int chunk = s * 32 + LANE;
        const float* ks = k + chunk * PITCH;
        sync_warp();
        load_segment<ALIGNED>(q, slot, row, s);
        commit();
        wait_for_all_but<0>();
        sync_warp();
        Matrix m = multiply_chunk(mine, ks, left_of(k, chunk), inner[chunk], q.energy, q.eta);
        spread<false>(m, m.hops < 31 ? m.hops : 31, {0.0f, 0.0f}, tau_in, mu, tau);
        for (int again = 0; again < 2; ++again) {
            Pair t = tau;
            for (int i = CHUNK - 1; i > 0; --i) {
                Pair e = invert(mine[i] - q.energy - t.re, -q.eta - t.im);
                t = {ks[i - 1] * e.re, ks[i - 1] * e.im};
            }
            Pair e = invert(mine[0] - q.energy - t.re, -q.eta - t.im);
            t = {left_of(k, chunk) * e.re, left_of(k, chunk) * e.im};
            if (again) {
                states[s * 64] = tau.re, states[s * 64 + 32] = tau.im;
                tau_in = pick(t, 0);
            } else {
                tau = from_right(t, tau_in);
            }
        }
    }
    for (int s = 0; s < q.segments; ++s) {
        int chunk = s * 32 + LANE;
        const float* ks = k + chunk * PITCH;
        float left = left_of(k, chunk);
        sync_warp();
        load_segment<ALIGNED>(q, slot, row, s);
        commit();
        wait_for_all_but<0>();
        sync_warp();
        Matrix m = multiply_chunk(mine, ks, left, inner[chunk], q.energy, q.eta);
        spread<true>(m, m.hops < 31 ? m.hops : 31, mu_in, {0.0f, 0.0f}, mu, tau);
        Pair d[CHUNK];
        for (int again = 0; again < 2; ++again) {
            d[0] = {mine[0] - q.energy - left * mu.re, -q.eta - left * mu.im};
            for (int i = 1; i < CHUNK; ++i) {
                Pair inverted = invert(d[i - 1].re, d[i - 1].im);
                d[i] = {mine[i] - q.energy - ks[i - 1] * inverted.re, -q.eta - ks[i - 1] * inverted.im};
            }
            if (!again) mu = from_left(invert(d[CHUNK - 1].re, d[CHUNK - 1].im), mu_in);
        }
        mu_in = pick(invert(d[CHUNK - 1].re, d[CHUNK - 1].im), 31);
        Pair t = {0.0f, 0.0f};
        if (!CAUSAL) t = {states[s * 64], states[s * 64 + 32]};
        for (int i = CHUNK - 1; i >= 0; --i) {
            int at = chunk * CHUNK + i;
            Pair g = invert(d[i].re - t.re, d[i].im - t.im);
            if (at < q.length) {
                float* to = q.out + 2 * ((long long)row * q.length + at);
                to[0] = g.re, to[1] = g.im;
            }
            if (!CAUSAL && i > 0) {
                Pair e = invert(mine[i] - q.energy - t.re, -q.eta - t.im);
                t = {ks[i - 1] * e.re, ks[i - 1] * e.im};
            }
        }
    }
}

// k of the whole row into shared memory, and for each chunk the product of its inner couplings.
DEVICE inline void stage_couplings(const Problem& q, float* k, float* inner, int thread, int threads) {
    int positions = q.segments * SEGMENT;
    for (int i = thread; i < positions; i += threads) {
        k[padded(i)] = i < q.length - 1 ? q.b[i * q.stride_b] * q.c[i * q.stride_c] : 0.0f;
    }
    sync_block();
    for (int chunk = thread; chunk < positions / CHUNK; chunk += threads) {
        float product = 1.0f, lowest = fminf(left_of(k, chunk), k[chunk * PITCH + CHUNK - 1]);
        for (int i = 0; i < CHUNK - 1; ++i) {
            float value = k[chunk * PITCH + i];
            product *= fmaxf(fabsf(value), SMALLEST_COUPLING);
            lowest = fminf(lowest, value);
        }
        inner[chunk] = lowest >= 0.0f ? product : INFINITY;
    }
    sync_block();
}

// All rows first, first + stride, ...; `slots` is this warp's own, k and inner are the block's.
template <bool CAUSAL, bool ALIGNED>
DEVICE inline void walk_rows(const Problem& q, float* slots, const float* k, const float* inner, int first, int stride) {
    int rows = first < q.batch ? (q.batch - first + stride - 1) / stride : 0;
    if (q.sharp) {
        for (int r = 0; r < rows; ++r) redo_row<CAUSAL, ALIGNED>(q, slots, k, inner, first + r * stride);
        return;
    }
    // two segments ahead of the one at work: those of the next row follow those of this one
    int load_row = first, load_segment_index = 0, load_slot = 0;
    auto load_next = [&]() {
        if (load_row < q.batch) load_segment<ALIGNED>(q, slots + load_slot * SLOT, load_row, load_segment_index);
        commit();
        load_slot = load_slot == SLOTS - 1 ? 0 : load_slot + 1;
        if (++load_segment_index == q.segments) load_segment_index = 0, load_row += stride;
    };
    if (!rows) return;
    load_next();
    load_next();
    wait_for_all_but<1>();
    sync_warp();
    Matrix now = multiply_chunk(slots + LANE * PITCH, k + LANE * PITCH, left_of(k, LANE), inner[LANE], q.energy, q.eta);
    int slot = 0;
    for (int row = first; row < q.batch; row += stride) {
        Pair mu_in = {0.0f, 0.0f};
        bool proven = true;
        for (int s = 0; s < q.segments; ++s) {
            load_next();
            wait_for_all_but<1>();
            sync_warp();
            int after = s + 1 < q.segments ? s + 1 : 0, next_slot = slot == SLOTS - 1 ? 0 : slot + 1;
            int chunk = after * 32 + LANE;
            Matrix next = multiply_chunk(slots + next_slot * SLOT + LANE * PITCH, k + chunk * PITCH, left_of(k, chunk),
                                         inner[chunk], q.energy, q.eta);
            Pair tau_in = {0.0f, 0.0f}, mu, tau;
            if (!CAUSAL && after) {
                tau_in = look_ahead(next);
                proven = proven && (next.hops < UNPROVEN || after + 1 == q.segments);
            }
            spread<CAUSAL>(now, now.hops < 31 ? now.hops : 31, mu_in, tau_in, mu, tau);
            Pair last = replay<CAUSAL, ALIGNED>(q, slots + slot * SLOT, k + s * 32 * PITCH, left_of(k, s * 32 + LANE), mu, tau, row, s);
            mu_in = pick(last, 31);
            now = next;
            slot = next_slot;
        }
        if (!proven) {
            // the slot that was consumed last is free; the two ahead stay
            redo_row<CAUSAL, ALIGNED>(q, slots + (slot == 0 ? SLOTS - 1 : slot - 1) * SLOT, k, inner, row);
            sync_warp();
        }
    }
}
