"""What the name of a kernel or operator tells: its category, its dtype, whether it uses tensor cores.

Names are matched by family, in order; the families were read off traces of torch 2.11 to 2.13 on compute capability 8.0
and 9.0 and from the naming schemes of cuBLAS (`nvjet`, `xmma`), CUTLASS, FlashAttention, CUB, NCCL and Inductor.
"""

from __future__ import annotations

import re
from functools import lru_cache

# a communication kernel's name also holds words such as `reduce`, a convolution's `gemm`: order decides
_KERNELS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (category, re.compile(pattern, re.IGNORECASE))
    for category, pattern in (
        ("communication", r"nccl|nvshmem|rccl|(one|two)_shot_all_reduce|multimem_"),
        ("copy", r"^mem(cpy|set)\b|direct_copy|copy_kernel|CatArrayBatchedCopy|_copy_"),
        ("attention", r"flash_|fmha|sdpa|attention|mha_"),
        ("convolution", r"conv(?!ert)|fprop|wgrad|dgrad|implicit_gemm|winograd|cudnn.*nchw"),
        (
            "gemm",
            r"gemm|gemv|nvjet|cutlass|xmma|splitk|triton_(tem|mm|bmm)|matmul|(^|_)b?mm(_|$)|dot_kernel|s16816|s1688",
        ),
        ("scan", r"scan|cumsum|cumprod|cummax|cummin"),
        ("reduction", r"reduce|softmax|norm|gammabeta|triton_(red|per)_|segment|triton_split_scan|nll_loss|logsumexp"),
        (
            "elementwise",
            r"elementwise|pointwise|triton_poi_|multi_tensor_apply|functor|dropout|foreach|distribution|unrolled",
        ),
    )
)

_OPERATORS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (category, re.compile(rf"^(?:{pattern})$"))
    for category, pattern in (
        ("gemm", r"b?mm|addb?mm|baddbmm|addmv|mv|dot|vdot|matmul|linear|einsum|outer|addr|_scaled_mm|mkldnn_linear.*|bilinear"),
        ("convolution", r".*conv(?!ert).*"),
        ("attention", r".*attention.*"),
        ("scan", r"(log)?cum(sum|prod|max|min|sumexp).*"),
        ("copy", r"copy|cat|stack|_to_copy|clone|contiguous|repeat|repeat_interleave|narrow_copy"),
        ("reduction", r"(nan)?sum|(nan)?mean|.*softmax.*|.*norm.*|a?max|a?min|aminmax|arg(max|min)|var(_mean)?|std|prod|all|any"
                      r"|logsumexp|segment_reduce|nll_loss.*|.*entropy.*|.*_loss.*|count_nonzero|equal|topk|median"),
        ("elementwise", r"r?(add|sub)|mul|(true_|floor_)?div(ide)?|pow|exp[2m1]*|log[12p0]*|r?sqrt|sin[ch]?|cosh?|tanh?|a(sin|cos|tan)h?|atan2"
                        r"|sigmoid|log_sigmoid.*|relu6?|.*gelu|silu|elu|leaky_relu|softplus|mish|hard.*|where|neg|abs|sgn|sign|clamp.*"
                        r"|maximum|minimum|f?m(ax|in)|lerp|addc(mul|div)|eq|ne|[lg][te]|logical_.*|bitwise_.*|is(nan|inf|finite)"
                        r"|fill|zero|reciprocal|square|round|floor|ceil|trunc|fmod|remainder|erf[c]?|(native_)?dropout|complex|polar"
                        r"|real|imag|conj_physical|angle|masked_fill|threshold|.*_backward|heaviside|hypot|fused_adamw?|fused_sgd"
                        r"|native_dropout|bernoulli|normal|uniform"),
    )
)  # fmt: skip

# operators that only describe, allocate or read back tensors: on a CPU their time is the host's
_BOOKKEEPING = re.compile(
    r"^(?:t|view|_unsafe_view|_reshape_alias|reshape|expand|expand_as|as_strided|transpose|permute|squeeze|unsqueeze|select|slice"
    r"|narrow|unbind|split.*|chunk|alias|detach|empty.*|new_empty.*|resize|set|resolve_(conj|neg)|view_as.*|unfold|diagonal"
    r"|item|_local_scalar_dense|is_nonzero|result_type|can_cast|to|lift_fresh|numpy_T|mT|T|flatten|unflatten|movedim|swapaxes"
    r"|_has_compatible_shallow_copy_type|requires_grad|retain_grad|output_nr|_version|size|stride|data|set_data|real_alias"
    r"|ones|zeros|full|ones_like|zeros_like|full_like|new_(zeros|ones|full)|broadcast_(to|tensors)|meshgrid|atleast_.d|conj|_conj"
    r"|record_stream|_pin_memory|is_pinned|_nested.*|sym_.*|_assert.*|pin_memory|_foreach_.*_list)$"
)

_TENSOR_CORES = re.compile(
    r"nvjet|tensorop|[sih](?:884|1688|16816|16832|161616)|hmma|wgmma|gmma|xmma_(?:gemm|fprop|dgrad|wgrad).*(?:f16|bf16|tf32|e4m3|i8)"
    r"|flash_(?:fwd|bwd)|fmha|sdpa|triton_tem|sm90_xmma_gemm|sm100_|umma",
    re.IGNORECASE,
)
_NOT_TENSOR_CORES = re.compile(r"simt|sgemm_(?!.*tf32)|dgemm|ffma|f32f32_f32f32_f32_(?!.*tf32)", re.IGNORECASE)

_DTYPES = (
    ("float8", r"e4m3|e5m2|float8|fp8"),
    ("bfloat16", r"bf16|bfloat16"),
    ("float16", r"c10::half|__half|fp16|(?<!b)f16|float16|\bhalf\b|h(?:884|1688|16816)gemm|nvjet_h"),
    ("tf32", r"tf32|s1688gemm(?!_(?:bf|f)16)"),
    ("complex64", r"complex<float>|cgemm"),
    ("complex128", r"complex<double>|zgemm"),
    ("float64", r"\bdouble\b|dgemm|f64"),
    ("float32", r"\bfloat\b|sgemm|f32|float32"),
    ("int8", r"i8|int8|\bchar\b|signed char"),
    ("int64", r"\blong\b"),
    ("int32", r"\bint\b"),
)  # fmt: skip
_DTYPE_PATTERNS = tuple((dtype, re.compile(pattern, re.IGNORECASE)) for dtype, pattern in _DTYPES)

# how traces spell the types of an operator's inputs
TYPES = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16", "int": "int32",
    "long int": "int64", "long": "int64", "bool": "bool", "unsigned char": "uint8", "signed char": "int8", "short int": "int16",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128", "c10::Float8_e4m3fn": "float8",
}  # fmt: skip

# a trace repeats few names very often
NAMES = 4096


@lru_cache(maxsize=NAMES)
def categorise_kernel(name: str) -> str:
    """gemm, convolution, attention, reduction, elementwise, scan, copy, communication or other."""
    return next((category for category, pattern in _KERNELS if pattern.search(name)), "other")


@lru_cache(maxsize=NAMES)
def categorise_operator(name: str) -> str:
    """The same categories for an operator of the host, such as `aten::addmm`."""
    space, _, base = name.partition("::")
    if space in ("c10d", "_c10d_functional") or name.startswith(("gloo:", "nccl:", "mpi:")):
        return "communication"
    if not base:
        return "other"
    stem = operator_stem(base)
    return next((category for category, pattern in _OPERATORS if pattern.match(stem)), "other")


@lru_cache(maxsize=NAMES)
def is_bookkeeping(name: str) -> bool:
    """Whether an operator of that name only describes, allocates or reads back tensors, or belongs to autograd's engine."""
    space, _, base = name.partition("::")
    if not base or space in ("autograd", "torch", "prim", "profiler"):
        return True
    return _BOOKKEEPING.match(operator_stem(base)) is not None


def operator_stem(base: str) -> str:
    """`add_` and `_foreach_add_` -> `add`."""
    stem = base.split(".")[0].removeprefix("_foreach_")
    return stem.rstrip("_") if stem.rstrip("_") else stem


def uses_tensor_cores(name: str) -> bool:
    """Whether the name belongs to a family that runs on tensor cores."""
    return _TENSOR_CORES.search(name) is not None and _NOT_TENSOR_CORES.search(name) is None


def guess_dtype(name: str) -> str:
    """The dtype that a kernel's name mentions, the narrowest float first; "" where it mentions none."""
    return next((dtype for dtype, pattern in _DTYPE_PATTERNS if pattern.search(name)), "")


def base_name(name: str) -> str:
    """A kernel's function name without return type, namespaces, template and call arguments.

    `void at::native::(anonymous namespace)::fill<4, float>(int, float*)` -> `fill`.
    """
    text = name.replace("(anonymous namespace)", "").removeprefix("void ")
    depth = 0
    kept = []
    for character in text:
        if character == "(" and depth == 0:
            break
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            kept.append(character)
    return "".join(kept).split("::")[-1].split(" ")[-1].strip()
