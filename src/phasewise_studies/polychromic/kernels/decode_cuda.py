"""One decoded token in raw CUDA: decode_layers.cu, built by nvcc at its first use for one shape of model.

Its sampler is for compute capability 9.0 and later, where blocks form clusters; before, the Triton sampler follows the logits.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from phasewise_studies.polychromic.kernels.cuda_library import load
from phasewise_studies.polychromic.kernels.decode_workspace import Launcher, Workspace
from phasewise_studies.polychromic.model.sampling import Sampling
from phasewise_studies.polychromic.model.shared_cache import Buffers, Sizes
from phasewise_studies.polychromic.model.weights import ModelShape, Weights

SOURCE = Path(__file__).parent / "cuda/decode_layers.cu"
# what the source is written for: features of a head, rows of a tile and of all, inner features of a step
HEAD, TILE, MOST_ROWS, STEP = 64, 16, 64, 32
# a thread keeps what a product of so many inputs wants of W and x in registers: 8 steps of 12
MOST_INPUTS = 16 * 8 * STEP
# between rows in shared memory
PADDING = 8
# scores and partial sums of the attention in shared memory that needs no asking for
ATTENTION_FLOATS = 48 * 1024 // 4
ATTENTION_WARPS = 8
# words that the 4096 threads of a row can keep, 64 each
MOST_WORDS = 64 * 4096


class Token(ctypes.Structure):
    """`Token` of the source, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "x", "q", "attended", "inner", "prompt_k", "prompt_v", "own_k", "own_v", "qkv", "out", "gate_up",
            "down", "norm_attention", "norm_inner", "norm", "embedding", "head", "cosines", "sines", "lengths", "tokens", "at",
            "counters", "logits", "uniforms", "chosen",
        )),
        *((name, ctypes.c_int) for name in (
            "rows", "prompts", "replies", "length", "room", "layers", "overlap", "samples",
        )),
        *((name, ctypes.c_float) for name in ("epsilon", "inverse_temperature", "top_p")),
    ]  # fmt: skip


def suits(weights: Weights, sizes: Sizes) -> bool:
    """Whether the source is written for this model, so many rows and this GPU; Triton's kernels are for all others."""
    if not weights.embed_VD.is_cuda or weights.embed_VD.dtype is not torch.bfloat16:
        return False
    gpu = torch.cuda.get_device_properties(weights.embed_VD.device)
    return gpu.major >= 8 and is_written_for(weights.shape, sizes, gpu.shared_memory_per_block_optin)


def is_written_for(shape: ModelShape, sizes: Sizes, shared_bytes: int) -> bool:
    """Whether the source is, on a GPU that gives a block so much shared memory."""
    keys = sizes.prompt_length + sizes.tokens
    attention_floats = shape.heads // shape.kv_heads * (keys + 1 + ATTENTION_WARPS * HEAD)
    # x of all tiles of rows, for the logits
    logits_bytes = -(-sizes.rows // TILE) * TILE * (2 * (shape.width + PADDING) + 4)
    inputs = (shape.width, shape.q_size, shape.inner)
    return (
        shape.head == HEAD
        and not shape.normed_heads
        and all(size % STEP == 0 and size <= MOST_INPUTS for size in inputs)
        and sizes.rows <= MOST_ROWS
        and attention_floats <= ATTENTION_FLOATS
        and logits_bytes <= shared_bytes
    )


def can_sample(capability: tuple[int, int], vocabulary: int) -> bool:
    """Whether the sampler is written for this GPU and so many words."""
    return capability >= (9, 0) and vocabulary <= MOST_WORDS


def make_launcher(
    weights: Weights, buffers: Buffers, space: Workspace, sizes: Sizes, sampling: Sampling, overlap: bool
) -> Launcher:
    """What launches one token, reading and writing these tensors.

    Raises:
        NotBuilt: there is no compiler, or it refused.
    """
    shape, device = weights.shape, weights.embed_VD.device
    capability = torch.cuda.get_device_capability(device)
    library, samples = _load(shape, capability), can_sample(capability, shape.vocabulary)
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    token, tensors = describe_token(weights, buffers, space, sizes, sampling, overlap=overlap, samples=samples)

    def launch() -> None:
        # the tensors are held as long as what points at them
        assert tensors
        stream = torch.cuda.current_stream(device).cuda_stream
        code = library.polychromic_token(ctypes.byref(token), multiprocessors, stream)
        if code:
            raise RuntimeError(f"the CUDA kernels of a decoded token did not start: cudaError {code}")

    return Launcher(launch, samples)


def describe_token(
    weights: Weights,
    buffers: Buffers,
    space: Workspace,
    sizes: Sizes,
    sampling: Sampling,
    *,
    overlap: bool,
    samples: bool,
) -> tuple[Token, dict[str, Tensor]]:
    """What the source is told, and the tensors that have to be held as long as that is used."""
    shape = weights.shape
    tensors: dict[str, Tensor] = {
        "x": space.x_RD, "q": space.q_RQ, "attended": space.attended_RQ, "inner": space.inner_RF,
        "prompt_k": buffers.prompt_k_LPSGE, "prompt_v": buffers.prompt_v_LPSGE,
        "own_k": buffers.own_k_LRTGE, "own_v": buffers.own_v_LRTGE,
        "qkv": weights.qkv_LOD, "out": weights.out_LDQ, "gate_up": weights.gate_up_LFD, "down": weights.down_LDF,
        "norm_attention": weights.norm_attention_LD, "norm_inner": weights.norm_inner_LD, "norm": weights.norm_D,
        "embedding": weights.embed_VD, "head": weights.head_VD, "cosines": space.cosines, "sines": space.sines,
        "lengths": buffers.lengths_P, "tokens": buffers.tokens_RT, "at": space.at, "counters": space.counters,
        "logits": space.logits_RV, "uniforms": buffers.uniforms_RT, "chosen": buffers.log_probabilities_RT,
    }  # fmt: skip
    # the source walks them without strides, 16 bytes at a time
    assert all(tensor.is_contiguous() and tensor.data_ptr() % 16 == 0 for tensor in tensors.values())
    token = Token(
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        rows=sizes.rows, prompts=sizes.prompts, replies=sizes.replies, length=sizes.prompt_length, room=sizes.tokens,
        layers=shape.layers, overlap=int(overlap), samples=int(samples), epsilon=shape.epsilon,
        inverse_temperature=1 / sampling.temperature, top_p=sampling.top_p,
    )  # fmt: skip
    return token, tensors


def list_constants(shape: ModelShape) -> dict[str, int]:
    """What the source is compiled for."""
    return {
        "WIDTH": shape.width, "HEADS": shape.heads, "GROUPS": shape.kv_heads, "INNER": shape.inner,
        "VOCABULARY": shape.vocabulary,
    }  # fmt: skip


def sample(logits_RV: Tensor, uniforms_R: Tensor, sampling: Sampling, shape: ModelShape) -> tuple[Tensor, Tensor]:
    """`sampling.sample` by the sampler of this model's library.

    Raises:
        NotBuilt: there is no compiler, or it refused.
    """
    rows, device = len(logits_RV), logits_RV.device
    assert logits_RV.is_contiguous() and logits_RV.dtype is torch.float32 and logits_RV.shape[1] == shape.vocabulary
    library = _load(shape, torch.cuda.get_device_capability(device))
    uniforms = uniforms_R.float().contiguous()
    tokens, at = (torch.zeros(count, dtype=torch.long, device=device) for count in (rows, 1))
    chosen = torch.zeros(rows, device=device)
    code = library.polychromic_sample(
        *(tensor.data_ptr() for tensor in (logits_RV, uniforms, tokens, chosen, at)),
        rows, 1, 1 / sampling.temperature, sampling.top_p, torch.cuda.current_stream(device).cuda_stream,
    )  # fmt: skip
    if code:
        raise RuntimeError(f"the CUDA sampler did not start: cudaError {code}")
    return tokens, chosen


@lru_cache
def _load(shape: ModelShape, capability: tuple[int, int]) -> ctypes.CDLL:
    return declare(load(SOURCE, capability, list_constants(shape)))


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, its functions' arguments told to ctypes."""
    library.polychromic_token.argtypes = [ctypes.POINTER(Token), ctypes.c_int, ctypes.c_void_p]
    library.polychromic_token.restype = ctypes.c_int
    # logits, uniforms, tokens, chosen, at; rows, room; 1 / temperature, top-p; stream
    library.polychromic_sample.argtypes = [
        *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 2, *[ctypes.c_float] * 2, ctypes.c_void_p,
    ]  # fmt: skip
    library.polychromic_sample.restype = ctypes.c_int
    return library
