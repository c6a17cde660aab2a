"""Matrix products off the fast path of the tensor cores."""

from __future__ import annotations

import re

from phasewise.analyse.claims import KERNEL, Ask
from phasewise.analyse.evidence import (
    Evidence,
    Judgement,
    absent,
    abstain,
    ask_rows,
    count,
    name_longest,
    per_cent,
    total,
)
from phasewise.records.base import Quantity
from phasewise.records.profile import Kernel, Operator

PRODUCTS = ("gemm", "convolution", "attention")
# tensor cores take TF32 from compute capability 8.0 on (TorchTidy uses the same bound)
TF32_CAPABILITY = (8, 0)
PRODUCT_SHARE = 0.05
# a format has to be so much faster to be worth its rounding
WORTHWHILE = 1.2
# 16 bytes: the alignment that cuBLAS asks for (NVIDIA, Matrix Multiplication Background, "Tensor Core requirements")
ALIGNED_BYTES = 16
ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "half": 2, "float32": 4, "tf32": 4, "int8": 1}
MATMULS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul")


def find_matmul_in_fp32(evidence: Evidence) -> Judgement:
    """Matrix products that leave the tensor cores idle.

    What it sees: products and convolutions whose kernels do not use tensor cores, on a device that has them.
    Why it costs: the ordinary units multiply several times slower; how much is measured on this machine, not read from a table.
    Threshold and its source: compute capability 8.0 (TorchTidy), 5 % of the step, and a tensor-core rate measured at 1.2 times
    float32 or more.
    Advice: torch.set_float32_matmul_precision("high") or autocast; let the gate say whether the tier allows the rounding.
    """
    if reason := evidence.lacks("cuda", "breakdown", "kernels", "peaks"):
        return abstain(reason)
    capability = evidence.machine.capability
    if capability is None or capability < TF32_CAPABILITY:
        return abstain("tensor cores take no float32 below compute capability 8.0")
    assert evidence.machine.peaks is not None
    rates = evidence.machine.peaks.matmul_flops_per_s
    fast = max((rates[name] for name in ("tf32", "bfloat16", "float16") if name in rates), default=None)
    if fast is None or "float32" not in rates:
        return abstain("the rates of float32 and of the tensor cores were not both measured")
    rows = evidence.rows(lambda k: k.category in PRODUCTS and not k.tensor_core and _is_float32(k))
    share = evidence.share(total(rows))
    if share < PRODUCT_SHARE or fast < WORTHWHILE * rates["float32"]:
        return absent(PRODUCT_SHARE, share=per_cent(share))
    # TF32 is the least that can be switched on, the fastest format the most
    tf32 = rates.get("tf32", fast)
    kept = rates["float32"] / tf32
    return Judgement(
        outcome="found",
        # small products do not reach the rate of large ones: half of what the rates promise, at least
        asks=ask_rows(rows, max(0.0, 0.5 * (1.0 - kept)), 1.0 - rates["float32"] / fast),
        observed={"share": per_cent(share), "faster": Quantity(value=1.0 / kept, unit="x")},
        threshold=PRODUCT_SHARE,
        evidence=(f"products without tensor cores hold {100 * share:.0f} % of the step", *name_longest(rows)),
        advice="Set torch.set_float32_matmul_precision('high') or use autocast, and let the gate judge the rounding.",
    )


def _is_float32(kernel: Kernel) -> bool:
    """By its name; a library's product says its type, and one that does not is taken for float32, unlike attention of one's own."""
    return kernel.dtype in ("float32", "fp32") or (not kernel.dtype and kernel.category != "attention")


def find_misaligned_matmul(evidence: Evidence) -> Judgement:
    """Matrix products whose sizes do not suit the tensor cores.

    What it sees: sizes of products that are not a multiple of 16 bytes (8 elements of 16 bits, 4 of TF32).
    Why it costs: such rows can't be loaded in whole vectors, and the library falls back on slower kernels.
    Threshold and its source: 16 bytes (NVIDIA's guide to matrix multiplication on tensor cores; TorchTidy), 5 % of the step.
    Advice: pad the odd dimension (vocabulary, heads, classes) to the next multiple and cut the result.
    """
    if reason := evidence.lacks("cuda", "breakdown", "kernels", "operators"):
        return abstain(reason)
    products = evidence.rows(lambda kernel: kernel.category == "gemm" and kernel.seconds > 0.0)
    on_cores = any(kernel.tensor_core or kernel.dtype in ("float16", "bfloat16") for _, kernel, _ in products)
    if not on_cores:
        return absent(PRODUCT_SHARE, share=per_cent(0.0))
    matmuls = [operator for operator in evidence.trace.operators if operator.name in MATMULS]
    if not any(operator.shapes for operator in matmuls):
        return abstain("the trace holds no shapes")
    widest = max((kernel for _, kernel, _ in products), key=lambda kernel: kernel.seconds)
    multiple = ALIGNED_BYTES // ELEMENT_BYTES.get(widest.dtype, 2)
    odd = [operator for operator in matmuls if _is_odd(operator, multiple)]
    time = min(evidence.device_time(odd), total(products))
    share = evidence.share(time)
    if share < PRODUCT_SHARE:
        return absent(float(multiple), share=per_cent(share))
    part = time / total(products)
    asks = tuple(Ask(pool=f"{KERNEL}:{i}", seconds=part * s, least=0.0, most=0.5) for i, _, s in products)
    return Judgement(
        outcome="found",
        asks=asks,
        observed={"share": per_cent(share), "products": count(sum(operator.calls for operator in odd))},
        threshold=float(multiple),
        evidence=tuple(f"{operator.name} on {operator.shapes}" for operator in odd[:3]),
        advice=f"Pad the odd dimension to a multiple of {multiple} and cut the result.",
    )


def _is_odd(operator: Operator, multiple: int) -> bool:
    """Whether one of the last two sizes of an input of the product is no multiple."""
    for group in re.findall(r"\[([\d,\s]+)\]", operator.shapes):
        sizes = [int(size) for size in re.findall(r"\d+", group)]
        if len(sizes) >= 2 and any(size % multiple for size in sizes[-2:]):
            return True
    return False
