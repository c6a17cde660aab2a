"""All layers of one decoded token in one kernel: its programs stay, and meet between the steps of a layer.

A node of a graph costs about a microsecond, 150 of them more than the reading of all weights; a meeting costs less. One
program a multiprocessor deals out the tiles of tiles.py; those that get none in a step ask for the weights of later ones, so that
device memory is never idle while few tiles are at work.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.workloads.polychromic.decoder import Launch, Workspace
from phasewise.workloads.polychromic.launching import fetch_ahead, meet
from phasewise.workloads.polychromic.shared import Buffers, Sizes
from phasewise.workloads.polychromic.tiles import add_tile, attention_tile, gate_up_tile, qkv_tile
from phasewise.workloads.polychromic.weights import Weights


@triton.jit
def _arrive(counter, meetings, PROGRAMS: tl.constexpr):
    """The next meeting of all programs."""
    if PROGRAMS > 1:
        meet(counter, (meetings + 1) * PROGRAMS)
    else:
        tl.debug_barrier()
    return meetings + 1


@triton.jit
def _fetch_share(w, first, COUNT: tl.constexpr, PROGRAMS: tl.constexpr, ON: tl.constexpr):
    """Ask for this program's part of COUNT weights; the programs from `first` on share the work."""
    if ON:
        share: tl.constexpr = (COUNT + PROGRAMS - 1) // PROGRAMS
        helper = tl.program_id(0) - first
        if helper >= 0:
            fetch_ahead(w + tl.minimum(helper * share, COUNT - share), share, 1, ON)


@triton.jit
def all_layers_kernel(
    x, q, attended, inner, prompt_k, prompt_v, own_k, own_v, qkv, out, gate_up, down, norm_attention, norm_inner,
    cosines, sines, lengths, at, counter, rows, prompts, length, new, layers, epsilon, scale,
    D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, F: tl.constexpr, REPLIES: tl.constexpr,
    ROWS: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr, PROGRAMS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """x through all layers; keys and values of the token `at` go into the caches. PROGRAMS programs, all at work at once."""
    pid = tl.program_id(0)
    now = tl.load(at).to(tl.int32) - 1
    meetings = pid * 0
    # caches of all layers may be longer than 32 bits count
    zero = meetings.to(tl.int64)
    prompt_stride = (zero + prompts) * length * (G * E)
    own_stride = (zero + rows) * new * (G * E)
    for layer in range(layers):
        wide = zero + layer
        w_qkv = qkv + wide * ((H + 2 * G) * E * D)
        w_out = out + wide * (D * H * E)
        w_gate_up = gate_up + wide * (2 * F * D)
        w_down = down + wide * (D * F)
        k, v = own_k + wide * own_stride, own_v + wide * own_stride
        for task in range(pid, (H + 2 * G) * E // (2 * PAIRS), PROGRAMS):
            qkv_tile(
                task, q, k, v, x, norm_attention + wide * D, w_qkv, cosines, sines, lengths, now, rows, new, epsilon,
                D, H, G, E, REPLIES, ROWS, PAIRS, SPLIT, BLOCK, PRECISION,
            )  # fmt: skip
        _fetch_share(w_out, (H + 2 * G) * E // (2 * PAIRS), D * H * E, PROGRAMS // 2, AHEAD)
        meetings = _arrive(counter, meetings, PROGRAMS)
        for task in range(pid, rows * G, PROGRAMS):
            attention_tile(
                task, attended, q, prompt_k + wide * prompt_stride, prompt_v + wide * prompt_stride, k, v, lengths, now,
                length, new, scale, H, G, E, REPLIES, QUERIES, KEYS, PRECISION,
            )  # fmt: skip
        _fetch_share(w_gate_up, PROGRAMS // 2, 2 * F * D, PROGRAMS // 2, AHEAD)
        meetings = _arrive(counter, meetings, PROGRAMS)
        for task in range(pid, D // COLUMNS, PROGRAMS):
            add_tile(task, x, attended, w_out, rows, D, H * E, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION)
        _fetch_share(w_down, PROGRAMS // 2, D * F, PROGRAMS // 2, AHEAD)
        meetings = _arrive(counter, meetings, PROGRAMS)
        for task in range(pid, F // COLUMNS, PROGRAMS):
            gate_up_tile(
                task, inner, x, norm_inner + wide * D, w_gate_up, rows, epsilon, D, F, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION
            )  # fmt: skip
        meetings = _arrive(counter, meetings, PROGRAMS)
        for task in range(pid, D // COLUMNS, PROGRAMS):
            add_tile(task, x, inner, w_down, rows, D, F, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION)
        # of the layer after this one, where there is one
        ahead = tl.minimum(wide + 1, layers - 1) * ((H + 2 * G) * E * D)
        _fetch_share(qkv + ahead, PROGRAMS // 2, (H + 2 * G) * E * D, PROGRAMS // 2, AHEAD)
        meetings = _arrive(counter, meetings, PROGRAMS)


def launch_all_layers(
    weights: Weights, buffers: Buffers, space: Workspace, sizes: Sizes, launch: Launch, padded: int, programs: int
) -> None:
    """One launch of `programs` programs, at most one a multiprocessor; the last counter is theirs."""
    shape = weights.shape
    all_layers_kernel[(programs,)](
        space.x_RD, space.q_RQ, space.attended_RQ, space.inner_RF, buffers.prompt_k_LPSGE, buffers.prompt_v_LPSGE,
        buffers.own_k_LRTGE, buffers.own_v_LRTGE, weights.qkv_LOD, weights.out_LDQ, weights.gate_up_LFD, weights.down_LDF,
        weights.norm_attention_LD, weights.norm_inner_LD, space.cosines, space.sines, buffers.lengths_P, space.at,
        space.counters[sizes.rows :], sizes.rows, sizes.prompts, sizes.prompt_length, sizes.tokens, shape.layers,
        shape.epsilon, shape.head**-0.5,
        D=shape.width, H=shape.heads, G=shape.kv_heads, E=shape.head, F=shape.inner, REPLIES=sizes.replies,
        ROWS=padded, PAIRS=min(launch.columns, shape.head // 2), COLUMNS=launch.columns, SPLIT=launch.split, BLOCK=launch.block,
        QUERIES=max(triton.next_power_of_2(shape.heads // shape.kv_heads), 16), KEYS=launch.keys, PRECISION="ieee",
        PROGRAMS=programs, AHEAD=programs > 1, num_warps=launch.split,
        # a program has one tile a step: loading the next one's ahead would only fill shared memory
        num_stages=1,
    )  # fmt: skip
